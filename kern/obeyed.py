"""What agent CLIs read or obey of a project by themselves, whichever of them runs."""

# From the top level. They make it start programs.
SETTINGS = (
    *(".claude/settings.json", ".claude/settings.local.json", ".mcp.json"),
    *(".codex/config.toml", ".codex/hooks.json"),
    *(".pi/settings.json", "opencode.json", "opencode.jsonc", ".gemini/settings.json"),
)
# All that lies there is theirs alone.
FOLDERS = (".pi", ".opencode", ".gemini")
HOME = ".claude"  # holds the settings and the advice of one of them
# Advice of the project: at the top level, in any folder, a person's own, for all agents.
MAIN = ("CLAUDE.md", f"{HOME}/CLAUDE.md")
COMMON = "AGENTS.md"
# What kern says there to a person's agents (kern init --agents); those that it starts are not told.
SKILL = f"{HOME}/skills/kern/SKILL.md"
OURS = r"(?ms)^<!-- kern: .*?-->\s*"
# Variables that name the folder for temporary files.
TEMPORARY = ("TMPDIR", "TMP", "TEMP", "CLAUDE_CODE_TMPDIR")
