"""The verbs of the `mcp` command that read: resources, templates, prompts, proposals."""

import logging

from asgiref.sync import async_to_sync

from mcpconfig import console_reading as shown
from mcpconfig.management.verbs import (
    MakeVerb,
    Options,
    Verbs,
    acting,
    json_object,
    named_service,
    wrong,
)
from mcpconfig.on_first_use import reading

logger = logging.getLogger(__name__)


def add_reading_verbs(verb: MakeVerb) -> None:
    verb("resources", "what it lets be read")
    verb("templates", "the patterns of URIs that it lets be read")
    verb("prompts", "the prompts that it has prepared")
    verb("read", "read a resource").add_argument("uri", help="as the service named it")
    prompt = verb("prompt", "have a prompt filled in")
    prompt.add_argument("prompt", help="its name at the service")
    prompt.add_argument("arguments", nargs="?", default="{}", help="a JSON object of texts")
    complete = verb("complete", "have a value of a prompt or template proposed")
    complete.add_argument("ref", help="a prompt's name, or a template's URI")
    complete.add_argument("argument", help="the one that the value is for")
    complete.add_argument("value", help="its beginning; may be empty")


class ReadingVerbs(Verbs):
    """They change nothing at the service."""

    def _resources(self, options: Options) -> None:
        found = async_to_sync(reading.list_resources)(
            named_service(options), acting=acting(options)
        )
        self._print(
            options,
            [shown.resource_value(resource) for resource in found],
            [shown.resource_line(resource) for resource in found] or ["No resources."],
        )

    def _templates(self, options: Options) -> None:
        found = async_to_sync(reading.list_resource_templates)(
            named_service(options), acting=acting(options)
        )
        self._print(
            options,
            [shown.template_value(template) for template in found],
            [shown.template_line(template) for template in found] or ["No templates."],
        )

    def _prompts(self, options: Options) -> None:
        found = async_to_sync(reading.list_prompts)(named_service(options), acting=acting(options))
        self._print(
            options,
            [shown.prompt_value(prompt) for prompt in found],
            [shown.prompt_line(prompt) for prompt in found] or ["No prompts."],
        )

    def _read(self, options: Options) -> None:
        service, uri = named_service(options), options["uri"]
        logger.info("Resource %r of service %s is read by the operator.", uri, service.name)
        contents = async_to_sync(reading.read_resource)(service, uri, acting=acting(options))
        self._print(options, shown.contents_value(contents), shown.contents_lines(contents))

    def _prompt(self, options: Options) -> None:
        service, name = named_service(options), options["prompt"]
        arguments = json_object(options["arguments"])
        for argument, value in arguments.items():
            if not isinstance(value, str):
                raise wrong(f"The value of “{argument}” must be a text, in quotation marks.")
        logger.info("Prompt %r of service %s is filled in by the operator.", name, service.name)
        filled = async_to_sync(reading.get_prompt)(service, name, arguments, acting=acting(options))
        self._print(options, shown.filled_value(filled), shown.filled_lines(filled))

    def _complete(self, options: Options) -> None:
        completion = async_to_sync(reading.complete)(
            named_service(options),
            options["ref"],
            options["argument"],
            options["value"],
            acting=acting(options),
        )
        self._print(options, shown.completion_value(completion), shown.completion_lines(completion))
