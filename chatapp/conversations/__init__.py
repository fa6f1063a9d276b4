"""What a person does to a chat: send, stop, retry, upload and remember."""
