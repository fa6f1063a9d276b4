from django.apps import AppConfig


class ChatAppConfig(AppConfig):
    name = "chatapp"
    verbose_name = "Chat"
