"""A JSON Schema of the fields of KEDA's ScaledObject that the manifests use; any other field is refused.

No package has KEDA's own schema in a form that can be read here.
"""

from __future__ import annotations

from typing import Any

COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
NUMBER_AS_TEXT: dict[str, Any] = {"type": "string", "pattern": r"^\d+(\.\d+)?$"}
"""KEDA reads the metadata of a trigger as texts, numbers too."""


def record(*required: str, **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


_SCALING_RULES = record(
    stabilizationWindowSeconds={"type": "integer", "minimum": 0, "maximum": 3600},
    policies={
        "type": "array",
        "items": record(
            "type",
            "value",
            "periodSeconds",
            type={"enum": ["Percent", "Pods"]},
            value={"type": "integer", "minimum": 1},
            periodSeconds={"type": "integer", "minimum": 1, "maximum": 1800},
        ),
    },
)
_PROMETHEUS = record(
    "type",
    "metadata",
    type={"const": "prometheus"},
    metadata=record(
        "serverAddress",
        "query",
        "threshold",
        serverAddress={"type": "string", "pattern": r"^https?://"},
        query={"type": "string", "minLength": 1},
        threshold=NUMBER_AS_TEXT,
        activationThreshold=NUMBER_AS_TEXT,
        ignoreNullValues={"enum": ["true", "false"]},
    ),
)
_SPEC = record(
    "scaleTargetRef",
    "triggers",
    scaleTargetRef=record("name", apiVersion={"type": "string"}, kind={"type": "string"}, name={"type": "string"}),
    minReplicaCount=COUNT,
    maxReplicaCount=COUNT,
    pollingInterval=COUNT,
    cooldownPeriod=COUNT,
    fallback=record("failureThreshold", "replicas", failureThreshold=COUNT, replicas=COUNT),
    advanced=record(
        horizontalPodAutoscalerConfig=record(behavior=record(scaleDown=_SCALING_RULES, scaleUp=_SCALING_RULES))
    ),
    triggers={"type": "array", "minItems": 1, "items": _PROMETHEUS},
)
SCALED_OBJECT = record(
    "apiVersion",
    "kind",
    "metadata",
    "spec",
    apiVersion={"const": "keda.sh/v1alpha1"},
    kind={"const": "ScaledObject"},
    metadata={"type": "object", "required": ["name"]},
    spec=_SPEC,
)
