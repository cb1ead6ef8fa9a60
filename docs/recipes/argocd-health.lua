-- The health of a SpecPolicy, for resource.customizations.health.specloop.dev_SpecPolicy of the ConfigMap argocd-cm.
-- argocd.md says why each reason counts as it does. Of Lua's libraries it needs none but the basic one.

local status = obj.status or {}
local found = {}
for _, condition in ipairs(status.conditions or {}) do
  found[condition.type] = condition
end

local function is(type, value)
  return found[type] ~= nil and found[type].status == value
end

local function health(of, type)
  return {status = of, message = found[type].message}
end

if found.Ready == nil or (status.observedGeneration or 0) < obj.metadata.generation then
  return {status = "Progressing", message = "waiting for the operator to look at this generation"}
end

-- Somebody must mend these; Ready repeats what is wrong.  It says NotReady where another condition is the cause.
if (is("Ready", "False") and found.Ready.reason ~= "NotReady") or is("TargetResolved", "False") or is("Conflicted", "True")
  or (found.MetricsAvailable ~= nil and found.MetricsAvailable.reason == "NoSuchSource") then
  return health("Degraded", "Ready")
end
if is("Degraded", "True") then
  return health("Degraded", "Degraded")
end

-- A roll-out ends by itself, so this does too.
if is("Progressing", "True") then
  return health("Progressing", "Progressing")
end

-- Somebody has to say that it may go on.
if is("Suspended", "True") then
  return health("Suspended", "Suspended")
end
if is("Drifted", "True") then
  return health("Suspended", "Drifted")
end

return health("Healthy", "Ready")
