from django.apps import AppConfig


class McpConfigConfig(AppConfig):
    name = "mcpconfig"
    verbose_name = "Services"
