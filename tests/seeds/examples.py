"""The configuration files that the source documents print, exactly as they print them."""

STRINGS = r"""{
"hooks": {
"PreToolUse": [
"if echo \"$HOOK_TOOL_INPUT\" | grep -q 'rm -rf'; then echo 'Blocked: destructive command'; exit 2; fi"
]
}
}"""
PIPELINE = """# hooks.yaml
parallelExecution: false  # Required for handler result sharing

builtins:
  turn-tracker:
    enabled: true
    options:
      preserve_on_resume: true
      inject_context: false

  session-naming:
    enabled: true

  event-logger:
    enabled: true
    options:
      include_input: true
      include_output: true
"""
SHORT_PIPELINE = """# hooks.yaml
parallelExecution: false  # ◄── Required for cross-handler communication
"""
FLAT = """{
  "hooks": {
    "PreToolUse": [
      {
        "command": "python3 /path/to/safety-check.py"
      }
    ],
    "PostToolUse": [
      {
        "command": "bash /path/to/audit-log.sh"
      }
    ]
  }
}
"""
