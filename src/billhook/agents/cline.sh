#!/bin/sh
# Runs billhook before each tool call of Cline. Written by `billhook install cline`, which overwrites changes.
: <<'end of settings'
{}
end of settings
answer=$(COMMAND) ||
    answer='{"cancel": true, "errorMessage": "billhook failed, so this call was not checked and is refused"}'
printf '%s\n' "$answer"
