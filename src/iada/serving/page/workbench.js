// The page of `iada serve`. Text of documents only ever becomes text nodes; the one piece of markup
// that is inserted, the explanation of a sentence, was escaped by the server.

const WITHOUT = "without context", NOTHING = "nothing";
const find = (id) => document.getElementById(id);
const text = find("text"), run = find("run"), beside = find("beside");

// What is shown: one entry per line of the text.
let lines = [];
let rows = [];
let shown = { run: "", beside: NOTHING };
let settings = { runs: [], max_bytes: 0 };
let working = null;
let fileName = "translation";

const bytes = (string) => new TextEncoder().encode(string).length;
const kilobytes = (size) => `${Math.ceil(size / 1024).toLocaleString("en")} kB`;
const say = (message) => { find("status").textContent = message; };
const complain = (message) => { find("problem").textContent = message; };
const isBlank = (line) => !line.trim();
const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
const contextOf = (name) => settings.runs.find((one) => one.name === name).context;

function tooLarge(name, size) {
  return `${name} has ${kilobytes(size)}, but this page takes at most ` +
    `${kilobytes(settings.max_bytes)}. Translate it in parts, or with \`iada translate\`.`;
}

async function start() {
  settings = await (await fetch("api/runs")).json();
  for (const { name, source_language, target_language } of settings.runs) {
    run.append(new Option(`${name} (${source_language} → ${target_language})`, name));
  }
  offerBeside();
  text.focus();
}

function offerBeside() {
  const before = beside.value;
  const others = settings.runs.filter((one) => one.name !== run.value);
  beside.replaceChildren(
    ...(contextOf(run.value) ? [new Option("the same model without context", WITHOUT)] : []),
    ...others.map((one) => new Option(one.name, `run ${one.name}`)),
    new Option("nothing", NOTHING),
  );
  if ([...beside.options].some((option) => option.value === before)) beside.value = before;
}

// The document that a line stands in, as the first line and the one after the last.
function documentAround(line) {
  let first = line, last = line;
  while (first > 0 && !isBlank(lines[first - 1])) first -= 1;
  while (last < lines.length && !isBlank(lines[last])) last += 1;
  return [first, last];
}

async function post(address, content, signal) {
  const response = await fetch(address, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(content),
    signal,
  });
  if (!response.ok) throw new Error((await response.json()).error);
  return response;
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
}

// Translate the lines without a kept translation, and hand each to `accept` as it comes.
async function translate(name, context, kept, accept, signal) {
  const response = await post("api/translate", { run: name, lines, kept, context }, signal);
  let isDone = false;
  for await (const event of events(response)) {
    if (event.error) throw new Error(event.error);
    if (event.done) isDone = true;
    else accept(event.line, event.translation);
  }
  if (!isDone) throw new Error("The server stopped in the middle of the document.");
}

function besideRequest() {
  return shown.beside === WITHOUT ? [shown.run, false] : [shown.beside.slice(4), true];
}

// Fill what is missing in one column, then in the other.
async function work(kept, keptBeside) {
  working?.abort();
  const own = working = new AbortController();
  const total = rows.filter((row, line) => row && kept[line] === null).length;
  let done = 0, changed = 0;
  busy(true);
  complain("");
  for (const [line, row] of rows.entries()) row?.item.setAttribute("aria-busy", kept[line] === null);
  try {
    const first = kept.indexOf(null);
    if (first >= 0) highlight(first);
    await translate(shown.run, true, kept, (line, translation) => {
      const row = rows[line];
      const isOther = row.translation !== null && row.translation !== translation;
      row.item.classList.toggle("changed", isOther);
      changed += isOther;
      row.translation = translation;
      row.item.setAttribute("aria-busy", "false");
      row.target.classList.remove("waiting");
      show(row);
      done += 1;
      say(`${done} of ${count(total, "sentence")}`);
      highlight(kept.indexOf(null, line + 1));
    }, own.signal);
    if (shown.beside !== NOTHING && keptBeside.includes(null)) {
      const [name, context] = besideRequest();
      say("Translating what stands beside it");
      await translate(name, context, keptBeside, (line, translation) => {
        rows[line].besideText = translation;
        rows[line].beside.classList.remove("waiting");
        show(rows[line]);
      }, own.signal);
    }
    say(`${count(total, "sentence")} translated${changed ? `, ${changed} changed` : ""}.` +
      (shown.beside === NOTHING ? "" : ` ${differing()}`));
  } catch (error) {
    if (own.signal.aborted && working !== own) return;
    say(own.signal.aborted ? `Stopped after ${count(done, "sentence")}.` : "");
    if (!own.signal.aborted) complain(error.message);
  }
  if (working === own) {
    working = null;
    busy(false);
    highlight(-1);
    for (const row of rows) row?.item.setAttribute("aria-busy", "false");
  }
}

function differing() {
  const number = rows.filter((row) => row?.besideText != null && row.besideText !== row.translation).length;
  return number ? `${count(number, "sentence")} differ${number === 1 ? "s" : ""} from what stands beside.`
    : "Both translations are the same.";
}

function busy(isBusy) {
  find("go").disabled = isBusy;
  find("stop").disabled = !isBusy;
  for (const id of ["save-text", "save-table"]) find(id).disabled = isBusy;
}

// Show which sentences the model reads with one.
function highlight(line) {
  const first = line < 0 || !rows[line] ? 0 : Math.max(documentAround(line)[0], line - contextOf(shown.run));
  rows.forEach((row, number) => {
    row?.item.classList.toggle("now", number === line);
    row?.item.classList.toggle("before", line >= 0 && number >= first && number < line);
  });
}

const words = (string) => string.split(/(\s+)/);

// Which words of two texts have no counterpart in the other: longest common subsequence.
function differences(one, other) {
  const [a, b] = [words(one), words(other)];
  if (a.length * b.length > 1e6) return [a.map((word) => [word, false]), b.map((word) => [word, false])];
  const length = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      length[i][j] = a[i] === b[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
    }
  }
  const marked = [a.map((word) => [word, true]), b.map((word) => [word, true])];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) marked[0][i++][1] = marked[1][j++][1] = false;
    else if (length[i + 1][j] >= length[i][j + 1]) i += 1;
    else j += 1;
  }
  return marked;
}

function write(element, parts) {
  element.replaceChildren(...parts.filter(([word]) => word).map(([word, isMarked]) => {
    if (!isMarked || isBlank(word)) return document.createTextNode(word);
    const mark = document.createElement("mark");
    mark.textContent = word;
    return mark;
  }));
}

function show(row) {
  const [own, other] = [row.translation ?? "", row.besideText];
  if (other == null || row.translation === null) {
    if (document.activeElement !== row.target) row.target.textContent = own;
    row.beside.textContent = other ?? "";
    return;
  }
  const [left, right] = differences(own, other);
  if (document.activeElement !== row.target) write(row.target, left);
  write(row.beside, right);
}

function build() {
  const spans = [];
  lines.forEach((line, number) => {
    if (isBlank(line)) return;
    if (number && !isBlank(lines[number - 1]) && spans.length) spans.at(-1).push(number);
    else spans.push([number]);
  });
  rows = lines.map(() => null);
  find("documents").replaceChildren(...spans.flatMap((span, place) => {
    const list = document.createElement("ol");
    list.append(...span.map((line, number) => buildRow(line, number + 1, place + 1, spans.length)));
    if (spans.length === 1) return [list];
    const heading = document.createElement("h3");
    heading.textContent = `Document ${place + 1}`;
    return [heading, list];
  }));
  find("documents").classList.toggle("alone", shown.beside === NOTHING);
  find("result").hidden = false;
}

function buildRow(line, sentence, place, documents) {
  const item = find("row").content.cloneNode(true).firstElementChild;
  const [source, target, other] = ["source", "target", "beside"].map((name) => item.querySelector(`.${name}`));
  const name = `sentence ${sentence}${documents > 1 ? ` of document ${place}` : ""}`;
  const titles = ["Source", shown.run, shown.beside === WITHOUT ? `${shown.run}, ${WITHOUT}` : shown.beside.slice(4)];
  item.querySelectorAll(".column").forEach((label, column) => { label.textContent = titles[column]; });
  source.setAttribute("aria-label", `Source, ${name}`);
  target.setAttribute("aria-label", `Translation, ${name}`);
  item.querySelector("summary .hidden").textContent = ` of ${name}`;
  source.textContent = lines[line];
  target.classList.add("waiting");
  other.classList.add("waiting");
  const row = rows[line] = { item, source, target, beside: other, translation: null, besideText: null, isCorrected: false };
  for (const element of [source, target]) {
    element.addEventListener("focus", () => {
      // Marks would become part of what is edited.
      element.textContent = element === source ? lines[line] : row.translation ?? "";
      if (!working) highlight(line);
    });
    element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); edit(line, element); }
      if (event.key === "Escape") { element.textContent = element === source ? lines[line] : row.translation ?? ""; element.blur(); }
    });
    element.addEventListener("blur", () => { if (!edit(line, element)) show(row); if (!working) highlight(-1); });
  }
  item.querySelector("details").addEventListener("toggle", (event) => { if (event.target.open) explain(line); });
  return item;
}

// Take what was typed; tell whether it changed anything.
function edit(line, element) {
  const row = rows[line];
  const typed = element.textContent.replace(/\s+/g, " ").trim();
  const isSource = element === row.source;
  if (!typed || typed === (isSource ? lines[line] : row.translation ?? "")) {
    if (isSource) element.textContent = lines[line];
    return false;
  }
  const [first, last] = documentAround(line);
  if (isSource) {
    lines[line] = typed;
    row.isCorrected = false;
    text.value = lines.join("\n");
  } else {
    row.translation = typed;
    row.isCorrected = true;
    row.target.classList.remove("waiting");
    row.item.classList.remove("changed");
  }
  const follows = (number) => number >= first && number < last && (number > line || (isSource && number === line));
  const kept = rows.map((other, number) => {
    if (!other) return "";
    return other.translation !== null && (other.isCorrected || !follows(number)) ? other.translation : null;
  });
  // What stands beside depends on the source alone.
  const keptBeside = rows.map((other, number) => {
    if (!other) return "";
    return isSource && follows(number) ? null : other.besideText;
  });
  for (const [number, other] of rows.entries()) {
    if (other && follows(number)) other.item.querySelector("details").open = false;
  }
  show(row);
  work(kept, keptBeside);
  return true;
}

async function explain(line) {
  const place = rows[line].item.querySelector(".explanation");
  place.textContent = "Measuring …";
  try {
    const translations = rows.map((row) => row?.translation ?? "");
    const response = await post("api/explain", { run: shown.run, lines, translations, line });
    const html = await response.text();
    place.replaceChildren(document.createRange().createContextualFragment(html));
  } catch (error) {
    place.textContent = error.message;
  }
}

function save(ending, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "text/plain;charset=utf-8" }));
  link.download = `${fileName}.${ending}`;
  link.click();
  URL.revokeObjectURL(link.href);
}

find("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  complain("");
  const size = bytes(text.value);
  if (isBlank(text.value)) return complain("There is no text to translate. Write or open a document first.");
  if (size > settings.max_bytes) return complain(tooLarge("The document", size));
  // Control characters become spaces, and what looks blank is blank for the server too.
  lines = text.value.replace(/\r\n?/g, "\n").replace(/[\0-\x08\x0b-\x1f\x85]/g, " ")
    .trimEnd().split("\n").map((line) => (isBlank(line) ? "" : line));
  shown = { run: run.value, beside: beside.value };
  build();
  const kept = lines.map((line) => (isBlank(line) ? "" : null));
  return work(kept, [...kept]);
});
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) find("ask").requestSubmit();
});
find("stop").addEventListener("click", () => { working?.abort(); });
run.addEventListener("change", offerBeside);
find("file").addEventListener("change", async (event) => {
  const file = event.target.files[0];
  if (!file) return;
  complain("");
  if (file.size > settings.max_bytes) { complain(tooLarge(file.name, file.size)); return; }
  try {
    text.value = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    fileName = file.name.replace(/\.[^.]*$/, "") || "translation";
    say(`${file.name} opened.`);
  } catch {
    complain(`${file.name} is not UTF-8 text. Save it as UTF-8, or open another file.`);
  }
});
find("split").hidden = !globalThis.Intl?.Segmenter;
find("split").addEventListener("click", () => {
  const language = settings.runs.find((one) => one.name === run.value).source_language;
  const segmenter = new Intl.Segmenter(language, { granularity: "sentence" });
  text.value = text.value.split("\n").map((paragraph) => (
    [...segmenter.segment(paragraph)].map(({ segment }) => segment.trim()).filter(Boolean).join("\n")
  )).join("\n");
});
find("save-text").addEventListener("click", () => {
  save("txt", rows.map((row) => row?.translation ?? "").join("\n") + "\n");
});
find("save-table").addEventListener("click", () => {
  const tabless = (string) => string.replaceAll("\t", " ");
  let place = 1;
  const table = rows.flatMap((row, line) => {
    if (!row) { place += line > 0 && Boolean(rows[line - 1]); return []; }
    return [[place, tabless(lines[line]), tabless(row.translation ?? "")].join("\t")];
  });
  save("tsv", ["document\tsource\ttarget", ...table, ""].join("\n"));
});
start().catch((error) => complain(`The server does not answer: ${error.message}`));
