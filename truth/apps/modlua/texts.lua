-- What the pages say in each language, made by the translators' tool.
local languages = {"de", "en", "fr", "nl", "pl", "cs"}
local texts = {}

for _, language in ipairs(languages) do
    local own = {}
    for n = 1, 600 do
        own["hall." .. n .. ".title"] = string.format("[%s] Hall %d: valves, pressures and notes", language, n)
    end
    texts[language] = own
end

return texts
