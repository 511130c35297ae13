#!/bin/bash
# my-hook.sh

echo "Turn: $CLAUDE_TURN_ID"
echo "Session: $CLAUDE_SESSION_NAME"
echo "Event: $CLAUDE_EVENT_TYPE"
