"""The operations for modules that import them at every start. They are imported on first use,
because the MCP SDK takes most of a second to import and few commands need it."""

from typing import TYPE_CHECKING

from mcpconfig.values.lazy_module import LazyModule

if TYPE_CHECKING:
    from mcpconfig.oauth import sign_in
    from mcpconfig.oauth.company import sign_in as company_sign_in
    from mcpconfig.operations import tools as operations

    from . import resources as reading
    from . import service_adding, service_probe, tasks
else:
    company_sign_in = LazyModule("mcpconfig.oauth.company.sign_in")
    operations = LazyModule("mcpconfig.operations.tools")
    reading = LazyModule("mcpconfig.operations.resources")
    service_adding = LazyModule("mcpconfig.operations.service_adding")
    service_probe = LazyModule("mcpconfig.operations.service_probe")
    sign_in = LazyModule("mcpconfig.oauth.sign_in")
    tasks = LazyModule("mcpconfig.operations.tasks")

__all__ = [
    "company_sign_in",
    "operations",
    "reading",
    "service_adding",
    "service_probe",
    "sign_in",
    "tasks",
]
