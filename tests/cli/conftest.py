"""What every test of the command line works on: the same small project as validation's tests."""

from __future__ import annotations

from tests.validation.conftest import _host, project

__all__ = ["_host", "project"]
