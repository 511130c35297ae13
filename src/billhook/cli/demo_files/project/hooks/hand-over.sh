# The agent has stopped: its work is handed over. Whoever waits for it never sees half a file.
mkdir -p handed-over && cp greet.py handed-over/.new && mv handed-over/.new handed-over/greet.py &&
    echo '{"systemMessage": "greet.py is handed over"}'
