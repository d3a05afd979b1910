"""Errors of locks become responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from ..extra import needs
from ..http import answer_to

with needs("django"):
    from asgiref.sync import iscoroutinefunction, markcoroutinefunction
    from django.http import JsonResponse


class LockErrorsMiddleware:
    """Answers 409 if a lock is held, 503 if it was lost or Redis is unreachable. For `MIDDLEWARE`; subclass it.

    Args:
        get_response: Django's; async or not.

    Attributes:
        busy: the status for a lock that is held: 409 ("conflict") or 423 ("locked").
        retry_after: seconds for `Retry-After`, where nothing was done.
    """

    sync_capable: ClassVar[bool] = True
    async_capable: ClassVar[bool] = True
    busy: ClassVar[int] = 409
    retry_after: ClassVar[int] = 1

    def __init__(self, get_response: Callable[[object], object]) -> None:
        self._get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: object) -> object:
        """Pass a request on."""
        return self._get_response(request)

    def process_exception(self, request: object, exception: Exception) -> JsonResponse | None:
        """Return the response to what a view raised; None if that is not about a lock, or a mistake of ours."""
        answer = answer_to(exception, busy=self.busy, retry_after=self.retry_after)
        if answer is None:
            return None
        return JsonResponse({"detail": answer.detail}, status=answer.status, headers=answer.headers)
