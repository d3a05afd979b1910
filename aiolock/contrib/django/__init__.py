"""Locks in Django: for async views, a decorator; for errors, a middleware; `commands` is for management commands.

`settings.AIOLOCK` has the arguments of `LockManager`, by name:

```python
AIOLOCK = {"source": "redis://localhost:6379/0", "acquire_timeout": 5.0}
MIDDLEWARE = [..., "aiolock.contrib.django.LockErrorsMiddleware"]
```
"""

from .errors import LockErrorsMiddleware as LockErrorsMiddleware
from .manager import get_locks as get_locks
from .views import locked as locked

__all__ = ["LockErrorsMiddleware", "get_locks", "locked"]
