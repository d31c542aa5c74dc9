"""The command line: it parses, calls one function, and prints. Everything it does, Python can do.

A command is a module with a frozen configuration class, `parse(arguments)` which returns one, and
`run(config)` which does the work, prints results to stdout and returns the path it wrote, if any.
"""
