"""aiolock in other people's frameworks: a module each, none of which `import aiolock` imports.

Each needs the extra of its name: `pip install "aiolock-redis[fastapi]"`; OpenTelemetry's is called `otel`.
"""
