"""What iada once lost, spoilt or misjudged: how to bring each defect back, and who finds it.

`defects.py` tries them. A row is one finding; some have several parts.
"""

from dataclasses import dataclass

_RESUMING = "tests/unit/training/test_resuming.py::test_"
_CHECKPOINTS = "tests/unit/training/test_checkpoints.py::test_"
_TRAINER = "tests/unit/training/test_trainer.py::test_"
_STORAGE = "tests/unit/test_storage.py::test_"
_JOURNAL = "tests/unit/decoding/test_journal.py::test_"
_PREPARING = "tests/unit/data/prepared/test_preparing.py::test_"
_COMET = "tests/unit/evaluation/test_comet.py::test_"
_SIGNIFICANCE = "tests/unit/evaluation/test_significance.py::test_"
_LINES = "tests/unit/data/formats/test_lines.py::test_"


@dataclass(frozen=True)
class Defect:
    """One change of one file that brings a defect back."""

    row: int
    story: str
    """What happened then."""
    file: str
    """Below `src/iada`."""
    now: str
    """Text that occurs once in the file."""
    then: str
    """What stands in its place."""
    tests: tuple[str, ...]
    """Those that must fail."""


DEFECTS = (
    Defect(
        1,
        "a finished run is trained further when it is resumed",
        "training/train.py",
        "if resume and _is_finished(folder, config, checkpoint):",
        "if False:",
        (
            f"{_RESUMING}resuming_a_run_at_its_last_update_changes_nothing",
            f"{_RESUMING}resuming_a_run_that_was_stopped_early_changes_nothing",
            f"{_RESUMING}a_run_killed_before_the_export_gets_the_model_of_an_uninterrupted_one",
        ),
    ),
    Defect(
        2,
        "`train.patience` and `train.min_delta` given on resume are ignored",
        "training/checkpoints.py",
        'stored.get("attributes", {}).items()',
        '{**stored.get("args", {}), **stored.get("attributes", {})}.items()',
        (
            f"{_RESUMING}patience_given_on_resume_takes_effect_and_its_counter_goes_on",
            f"{_RESUMING}min_delta_given_on_resume_takes_effect",
        ),
    ),
    Defect(
        3,
        "randomisation does not count differences that equal the observed one",
        "evaluation/significance.py",
        ">= observed - _TOLERANCE",
        "> observed",
        (
            f"{_SIGNIFICANCE}few_differing_units_are_no_evidence",
            f"{_SIGNIFICANCE}randomisation_approaches_the_exact_test",
        ),
    ),
    Defect(
        4,
        "the default test is the bootstrap, which calls too many equal systems different",
        "config/evaluate.py",
        'test: SignificanceTest = "randomization"',
        'test: SignificanceTest = "bootstrap"',
        (f"{_SIGNIFICANCE}the_default_test_calls_five_percent_of_equal_systems_different",),
    ),
    Defect(
        5,
        "each micro-batch is divided by its own number of tokens",
        "training/trainer.py",
        "losses.count if num_items_in_batch is None else num_items_in_batch",
        "losses.count",
        (
            f"{_TRAINER}one_update_of_unequal_micro_batches_has_the_gradient_of_the_mean_over_all_"
            "tokens",
        ),
    ),
    Defect(
        6,
        "the model of a run is its last checkpoint, not its best",
        "training/trainer.py",
        "load_best_model_at_end=True",
        "load_best_model_at_end=False",
        (f"{_RESUMING}the_model_of_a_run_is_its_best_checkpoint_not_its_last",),
    ),
    Defect(
        7,
        "losses and gradients are not looked at between two log lines",
        "training/trainer.py",
        "self._finite.add(self.state.global_step + 1, torch.as_tensor(norm), self._sums)",
        "pass",
        (
            f"{_TRAINER}a_loss_that_is_not_a_number_stops_the_run_long_before_the_next_log_line",
            "tests/unit/training/test_run.py::test_a_diverging_run_is_one_line_exit_code_2_and_no_"
            "model",
        ),
    ),
    Defect(
        7,
        "a model that is not finite becomes a checkpoint",
        "training/trainer.py",
        "if not torch.stack([weight.isfinite().all() for weight in parameters]).all():",
        "if False:",
        (f"{_TRAINER}no_checkpoint_of_a_model_that_is_not_finite_is_written",),
    ),
    Defect(
        7,
        "a checkpoint is chosen by a validation that is not finite",
        "training/trainer.py",
        "if not math.isfinite(total):",
        "if False:",
        (f"{_TRAINER}no_checkpoint_of_a_model_that_is_not_finite_is_written",),
    ),
    Defect(
        7,
        "`metrics.jsonl` holds a bare NaN",
        "training/callbacks.py",
        "allow_nan=False",
        "allow_nan=True",
        ("tests/unit/training/test_run.py::test_metrics_are_json_or_not_written",),
    ),
    Defect(
        8,
        "a damaged checkpoint is loaded",
        "runs/folder.py",
        "return find_damage(path, files)",
        "return None",
        (
            f"{_CHECKPOINTS}any_damage_to_the_newest_checkpoint_is_noticed",
            f"{_CHECKPOINTS}a_checkpoint_whose_best_one_is_damaged_is_not_used",
            f"{_CHECKPOINTS}without_a_complete_checkpoint_a_run_is_not_silently_begun_again",
        ),
    ),
    Defect(
        9,
        "nothing is flushed to the disk",
        "storage.py",
        "os.fsync(handle)",
        "pass",
        (
            f"{_STORAGE}a_file_is_flushed_before_it_gets_its_name_and_the_name_after",
            f"{_STORAGE}an_appended_line_is_flushed",
            f"{_STORAGE}a_staged_folder_appears_whole_and_flushed",
        ),
    ),
    Defect(
        9,
        "a translation gets its name before it is on the disk",
        "decoding/files.py",
        "put_in_place(_partial(path), path)",
        "_partial(path).replace(path)",
        (
            "tests/unit/decoding/test_files.py::test_a_translation_is_flushed_before_it_gets_its_name",
        ),
    ),
    Defect(
        9,
        "a prepared corpus gets its name before it is on the disk",
        "data/prepared/prepare.py",
        "put_in_place(unfinished, partial / name)",
        "unfinished.replace(partial / name)",
        (f"{_PREPARING}every_file_is_flushed_before_the_corpus_gets_its_name",),
    ),
    Defect(
        9,
        "the state of the optimiser is a pickle",
        "training/checkpoints.py",
        "save_state(Path(output_dir), OPTIMIZER, cast(Any, self.optimizer).state_dict())",
        'torch.save(cast(Any, self.optimizer).state_dict(), Path(output_dir) / "optimizer.pt")',
        (f"{_CHECKPOINTS}a_checkpoint_holds_safetensors_and_json_alone_and_vouches_for_all_of_it",),
    ),
    Defect(
        10,
        "two processes work in one place",
        "storage.py",
        "fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
        (
            f"{_RESUMING}a_second_process_cannot_train_in_the_same_folder",
            f"{_JOURNAL}a_second_process_is_refused",
            f"{_STORAGE}a_second_process_is_told_who_holds_the_lock_and_for_how_long",
            "tests/unit/cli/test_experiment.py::test_a_second_command_in_the_same_folder_is_refused"
            "_in_one_line",
        ),
    ),
    Defect(
        11,
        "a run goes on with another corpus or other versions without a word",
        "training/train.py",
        "if changes and not accept_changes:",
        "if False:",
        (
            f"{_RESUMING}a_changed_corpus_is_named_and_refused",
            f"{_RESUMING}another_number_of_threads_is_refused",
        ),
    ),
    Defect(
        11,
        "run folders of a newer layout are read as if they were of this one",
        "runs/folder.py",
        'version = self.environment().get("format", 0)',
        "version = FORMAT",
        (f"{_RESUMING}a_run_of_a_newer_format_is_refused",),
    ),
    Defect(
        11,
        "checkpoints of 0.1.0 are not read",
        "runs/folder.py",
        "return _find_problem_of_0_1_0(path)",
        'return f"{CHECKPOINT_MANIFEST} is missing"',
        (
            "tests/golden/test_archived_run.py::test_a_run_is_continued_from_its_pickled_state_as_0"
            "_1_0_would_have",
        ),
    ),
    Defect(
        12,
        "a prepared corpus with changed bytes is used",
        "data/prepared/prepared_corpus.py",
        "corpus._verify_modified()",
        "pass",
        (f"{_PREPARING}changed_bytes_of_the_same_size_are_noticed",),
    ),
    Defect(
        13,
        "what the system refuses ends in a traceback",
        "cli/main.py",
        "message = _describe_system_error(error)",
        "message = None",
        (
            "tests/unit/cli/test_main.py::test_what_the_system_refuses_is_one_line_and_exit_code_2",
            "tests/invariance/test_limits.py::test_a_run_that_hits_a_limit_ends_in_one_line_and_can"
            "_be_continued",
        ),
    ),
    Defect(
        14,
        "a line of any length is read whole",
        "data/formats/lines.py",
        "_refuse_long_lines(path, data, lines, max_line)\n",
        "pass\n",
        (f"{_LINES}a_line_beyond_the_limit_is_refused_by_its_number",),
    ),
    Defect(
        14,
        "a packed file may grow without bounds",
        "data/formats/lines.py",
        "_refuse_bomb(path, file.tell(), raw.tell())",
        "pass",
        (f"{_LINES}huge_files_are_refused_in_bounded_memory",),
    ),
    Defect(
        15,
        "deep YAML, aliases and huge numbers are built",
        "config/base.py",
        "        _refuse_bombs(path, text)\n",
        "",
        # Other cases need minutes to fail.
        tuple(
            "tests/unit/config/test_files.py::test_what_would_take_unbounded_time_or_memory_is_"
            f"refused_in_one_line[{case}]"
            for case in ("alias", "digits")
        ),
    ),
    Defect(
        16,
        "the interpreter that a run folder names is executed",
        "cli/evaluate.py",
        "saved = with_own_comet(saved)",
        "pass",
        (
            "tests/unit/evaluation/test_commands.py::test_nothing_that_a_run_folder_names_is_"
            "executed",
        ),
    ),
    Defect(
        16,
        "code beside a model is run",
        "decoding/loading.py",
        '"trust_remote_code": False',
        '"trust_remote_code": True',
        (
            "tests/unit/decoding/test_translator.py::test_code_beside_a_model_is_never_run_and_"
            "nobody_is_asked",
        ),
    ),
    Defect(
        17,
        "a link in place of the output is followed",
        "decoding/journal.py",
        "    if not path.is_dir():\n        path.unlink(missing_ok=True)\n"
        "    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o666)\n",
        "    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)\n",
        (f"{_JOURNAL}a_file_takes_the_place_of_a_link_and_its_target_stays",),
    ),
    Defect(
        17,
        "a link in place of the journal is followed",
        "decoding/journal.py",
        "os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o666",
        "os.O_RDWR | os.O_CREAT, 0o666",
        (f"{_JOURNAL}a_link_in_place_of_the_journal_is_refused",),
    ),
    Defect(
        17,
        "a foreign journal changes the output",
        "decoding/journal.py",
        'return results if entry.get("digest") == _digest(requests, results) else None',
        "return results",
        (f"{_JOURNAL}changed_results_and_other_requests_are_not_used",),
    ),
    Defect(
        17,
        "an empty trainer state ends in a traceback",
        "runs/folder.py",
        "    except (OSError, ValueError, TypeError, KeyError, AttributeError):\n"
        '        return "trainer_state.json is unreadable"\n',
        '    except OSError:\n        return "trainer_state.json is unreadable"\n',
        (f"{_CHECKPOINTS}a_trainer_state_that_says_nothing_is_damage",),
    ),
    Defect(
        18,
        "control characters of foreign files reach the terminal",
        "errors.py",
        "    return _INVISIBLE.sub(lambda found: ascii(found.group())[1:-1], text)\n",
        "    return text\n",
        (
            "tests/unit/test_errors.py::test_control_characters_are_spelled_out",
            "tests/unit/data/formats/test_sgm.py::test_control_characters_of_ids_are_shown_as_text",
        ),
    ),
    Defect(
        18,
        "COMET's messages reach the terminal as they are",
        "evaluation/comet.py",
        'character if character.isprintable() else character.encode("unicode_escape").decode()',
        "character",
        (f"{_COMET}a_child_cannot_steer_the_terminal",),
    ),
    Defect(
        18,
        "all of COMET's messages are kept",
        "evaluation/comet.py",
        "            del self._messages[:-_MESSAGES_KEPT]\n",
        "",
        (f"{_COMET}only_the_end_of_its_messages_is_kept_and_shown",),
    ),
    Defect(
        18,
        "deep JSON of the child ends in a traceback",
        "evaluation/comet.py",
        "except (ValueError, RecursionError):",
        "except ValueError:",
        (f"{_COMET}a_process_that_answers_wrongly_is_explained",),
    ),
    Defect(
        19,
        "a run that was killed before it began can neither begin nor go on",
        "runs/folder.py",
        "if entry.name not in leftovers and not entry.name.startswith(temporary)",
        "if entry.name != LOCK",
        (f"{_RESUMING}a_run_killed_before_its_configuration_was_written_can_begin_again",),
    ),
    Defect(
        20,
        "a corpus without a document is prepared",
        "data/prepared/prepare.py",
        "if not checks.documents(split):",
        "if False:",
        (f"{_PREPARING}a_split_without_a_usable_document_is_refused_and_leaves_no_corpus",),
    ),
    Defect(
        20,
        "an inspection that fails leaves a finished corpus",
        "data/prepared/prepare.py",
        "            inspect(PreparedCorpus(partial, manifest))\n"
        "        write_text(partial / MANIFEST, _json(manifest))\n"
        "        put_in_place(partial, output)\n",
        "            write_text(partial / MANIFEST, _json(manifest))\n"
        "            put_in_place(partial, output)\n"
        "            inspect(PreparedCorpus(output, manifest))\n",
        (f"{_PREPARING}a_failed_inspection_leaves_no_corpus_and_is_resumed",),
    ),
    Defect(
        21,
        "`tnorm_at: feed_forward` is read after dropout",
        "models/observation.py",
        "prepend=True",
        "prepend=False",
        (
            "tests/unit/models/test_observation.py::test_the_feed_forward_output_is_read_before_"
            "dropout",
        ),
    ),
)
