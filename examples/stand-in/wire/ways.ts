/** The stand-in's path for a provider, and the prefix of the provider's environment variables. */
type Way = {
  /** The path before the API's own path. */
  path: string;
  /** The prefix of its environment variables. */
  variables: string;
};

/** By provider name, as in AGENTCHART_MODEL. */
export const WAYS: Readonly<Record<string, Way>> = {
  openai: { path: '/openai/v1', variables: 'OPENAI' },
  'openai-responses': { path: '/openai/v1', variables: 'OPENAI' },
  'openai-chat': { path: '/openai/v1', variables: 'OPENAI' },
  anthropic: { path: '/anthropic', variables: 'ANTHROPIC' },
  gemini: { path: '/gemini', variables: 'GEMINI' },
  'gemini-interactions': { path: '/gemini', variables: 'GEMINI' },
  groq: { path: '/groq/openai/v1', variables: 'GROQ' },
  mistral: { path: '/mistral/v1', variables: 'MISTRAL' },
  xai: { path: '/xai/v1', variables: 'XAI' },
  deepseek: { path: '/deepseek', variables: 'DEEPSEEK' },
  ollama: { path: '/ollama', variables: 'OLLAMA' },
  openrouter: { path: '/openrouter/api/v1', variables: 'OPENROUTER' },
  azure: { path: '/azure/openai/v1', variables: 'AZURE' },
  harmony: { path: '/harmony/v1', variables: 'HARMONY' },
  cerebras: { path: '/cerebras/v1', variables: 'CEREBRAS' },
};

/** Returns the environment variables that direct an agent's provider `name` to the stand-in at `root`. */
export function environmentOf(name: string, root: string): Record<string, string> {
  const way = WAYS[name];
  if (way === undefined) throw new RangeError(`The stand-in does not support the provider "${name}".`);
  return {
    AGENTCHART_MODEL: `${name}:stand-in`,
    [`${way.variables}_BASE_URL`]: root + way.path,
    [`${way.variables}_API_KEY`]: 'stand-in-needs-none',
  };
}
