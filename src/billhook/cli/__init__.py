"""The command line: where people meet it. One file per verb, imported when it is used."""
