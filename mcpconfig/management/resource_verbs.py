"""The verbs of the `mcp` command for resources, templates, prompts and completion."""

import logging

from asgiref.sync import async_to_sync
from django.utils.translation import gettext as _

from mcpconfig.operations.lazy import reading
from mcpconfig.output import resources as console_resources

from .verbs import (
    AddVerb,
    Options,
    VerbCommand,
    get_acting,
    get_service,
    make_failure,
    parse_json_object,
)

logger = logging.getLogger(__name__)


def add_resource_verbs(add_verb: AddVerb) -> None:
    add_verb("resources", _("its resources"))
    add_verb("templates", _("its resource templates"))
    add_verb("prompts", _("its prompts"))
    add_verb("read", _("read a resource")).add_argument(
        "uri", help=_("its URI, as the service named it")
    )
    prompt = add_verb("prompt", _("fill in a prompt"))
    prompt.add_argument("prompt", help=_("its name at the service"))
    prompt.add_argument("arguments", nargs="?", default="{}", help=_("a JSON object of texts"))
    complete = add_verb("complete", _("suggest values for a prompt or template"))
    complete.add_argument("ref", help=_("a prompt’s name, or a template’s URI"))
    complete.add_argument("argument", help=_("the argument to complete"))
    complete.add_argument("value", help=_("the beginning of the value; may be empty"))


class ResourceVerbs(VerbCommand):
    """Verbs that only read from the service."""

    def _resources(self, options: Options) -> None:
        resources = async_to_sync(reading.list_resources)(
            get_service(options), acting=get_acting(options)
        )
        self._print(
            options,
            [console_resources.build_resource_value(resource) for resource in resources],
            [console_resources.format_resource(resource) for resource in resources]
            or [_("No resources.")],
        )

    def _templates(self, options: Options) -> None:
        templates = async_to_sync(reading.list_resource_templates)(
            get_service(options), acting=get_acting(options)
        )
        self._print(
            options,
            [console_resources.build_template_value(template) for template in templates],
            [console_resources.format_template(template) for template in templates]
            or [_("No templates.")],
        )

    def _prompts(self, options: Options) -> None:
        prompts = async_to_sync(reading.list_prompts)(
            get_service(options), acting=get_acting(options)
        )
        self._print(
            options,
            [console_resources.build_prompt_value(prompt) for prompt in prompts],
            [console_resources.format_prompt(prompt) for prompt in prompts] or [_("No prompts.")],
        )

    def _read(self, options: Options) -> None:
        service, uri = get_service(options), options["uri"]
        logger.info("Resource %r of service %s is read by the operator.", uri, service.name)
        contents = async_to_sync(reading.read_resource)(service, uri, acting=get_acting(options))
        self._print(
            options,
            console_resources.build_contents_value(contents),
            console_resources.format_contents(contents),
        )

    def _prompt(self, options: Options) -> None:
        service, name = get_service(options), options["prompt"]
        arguments = parse_json_object(options["arguments"])
        for argument, value in arguments.items():
            if not isinstance(value, str):
                raise make_failure(
                    _("The value of “%(argument)s” must be text, in quotation marks.")
                    % {"argument": argument}
                )
        logger.info("Prompt %r of service %s is filled in by the operator.", name, service.name)
        filled = async_to_sync(reading.get_prompt)(
            service, name, arguments, acting=get_acting(options)
        )
        self._print(
            options,
            console_resources.build_prompt_result_value(filled),
            console_resources.format_prompt_result(filled),
        )

    def _complete(self, options: Options) -> None:
        completion = async_to_sync(reading.complete)(
            get_service(options),
            options["ref"],
            options["argument"],
            options["value"],
            acting=get_acting(options),
        )
        self._print(
            options,
            console_resources.build_completion_value(completion),
            console_resources.format_completion(completion),
        )
