/** Where the stand-in provider is asked for each name that AGENTCHART_MODEL takes, and which variables say so. */
export type Way = {
  /** The path ahead of the API's own. */
  path: string;
  /** What its variables begin with. */
  variables: string;
};

export const WAYS: Readonly<Record<string, Way>> = {
  openai: { path: '/openai/v1', variables: 'OPENAI' },
  'openai-responses': { path: '/openai/v1', variables: 'OPENAI' },
  'openai-chat': { path: '/openai/v1', variables: 'OPENAI' },
  anthropic: { path: '/anthropic', variables: 'ANTHROPIC' },
  gemini: { path: '/gemini', variables: 'GEMINI' },
  groq: { path: '/groq/openai/v1', variables: 'GROQ' },
  mistral: { path: '/mistral/v1', variables: 'MISTRAL' },
  xai: { path: '/xai/v1', variables: 'XAI' },
  deepseek: { path: '/deepseek', variables: 'DEEPSEEK' },
  ollama: { path: '/ollama', variables: 'OLLAMA' },
  openrouter: { path: '/openrouter/api/v1', variables: 'OPENROUTER' },
  azure: { path: '/azure/openai/v1', variables: 'AZURE' },
  cerebras: { path: '/cerebras/v1', variables: 'CEREBRAS' },
};

/** The environment in which agents find the stand-in at `root` where they look for the provider `name`. */
export function environmentOf(name: string, root: string): Record<string, string> {
  const way = WAYS[name];
  if (way === undefined) throw new RangeError(`The stand-in has no way for the provider "${name}".`);
  return {
    AGENTCHART_MODEL: `${name}:stand-in`,
    [`${way.variables}_BASE_URL`]: root + way.path,
    [`${way.variables}_API_KEY`]: 'stand-in-needs-none',
  };
}
