# The agent has stopped: hand over its work. The rename makes sure that a waiting process never sees half a file.
mkdir -p handed-over && cp greet.py handed-over/.new && mv handed-over/.new handed-over/greet.py &&
    echo '{"systemMessage": "greet.py is handed over"}'
