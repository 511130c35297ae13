#!/bin/bash
# Block dangerous bash commands
read -r payload
tool=$(echo "$payload" | jq -r '.tool_name')
input=$(echo "$payload" | jq -r '.tool_input')

if [[ "$tool" == "bash" ]]; then
    if echo "$input" | grep -qE "rm -rf|DROP TABLE|format c:"; then
        echo "Blocked: Dangerous command pattern detected"
        exit 2
    fi
fi
exit 0
