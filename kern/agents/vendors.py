"""The vendors of models that a CLI of many of them may ask: their keys' variables, their hosts, and
who of them pays.
"""

from collections.abc import Mapping

from kern.agents.protocol import SUBSCRIPTION, Payer

KEYS = (
    *("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"),
    *("OPENROUTER_API_KEY", "DEEPSEEK_API_KEY", "GROQ_API_KEY", "CEREBRAS_API_KEY", "XAI_API_KEY"),
    *("MISTRAL_API_KEY", "AI_GATEWAY_API_KEY", "ZAI_API_KEY", "MOONSHOT_API_KEY", "KIMI_API_KEY"),
    *("TOGETHER_API_KEY", "FIREWORKS_API_KEY", "OPENCODE_API_KEY", "AZURE_OPENAI_API_KEY"),
)
HOSTS = (
    *("*.anthropic.com", "claude.ai", "*.claude.com", "*.openai.com", "chatgpt.com"),
    *("openrouter.ai", "api.deepseek.com", "api.groq.com", "api.cerebras.ai", "api.x.ai"),
    *("api.mistral.ai", "ai-gateway.vercel.sh", "api.z.ai", "api.moonshot.ai", "api.kimi.com"),
    *("api.together.xyz", "api.fireworks.ai", "opencode.ai", "*.githubcopilot.com", "github.com"),
    "*.googleapis.com",
)


def payer(cli: str, logins: str, env: Mapping[str, str]) -> Payer:
    """A login, by the text of the CLI's own file of them, beats a key of the environment; which
    vendor is asked, the model says.
    """
    if '"oauth"' in logins:
        return Payer(f"{SUBSCRIPTION} that {cli} is logged in to")
    key = next((name for name in KEYS if env.get(name)), "")
    return Payer(f"the key in {key}, by use" if key else "")
