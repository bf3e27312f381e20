/**
 * The request rules of a model, judged by its name. Source:
 * https://platform.claude.com/docs/en/about-claude/models/overview and the pages on thinking, effort and
 * structured outputs.
 */
export type ModelRules = {
  /** The default of `max_tokens`, at most the model's output limit. */
  maxOutputTokens: number;
  /** The form of thinking: none, with a token budget, or adaptive. */
  thinking: 'never' | 'budget' | 'adaptive';
  /** Whether the model thinks by default. */
  thinksByDefault: boolean;
  /** How thinking is turned off: it is off by default, with this `thinking.type`, or not at all. */
  thinkingOff: 'default' | 'disabled' | 'between_tools' | 'impossible';
  /** Whether the effort `xhigh` is supported. */
  extraHighEffort: boolean;
  /** Whether `tool_choice` may force a call when the model does not think. */
  forcedChoice: boolean;
  /** Whether a schema can be enforced: `output_config.format` and `strict` tools. */
  nativeOutput: boolean;
  /** Which of `temperature` and `top_p` a request may have. */
  sampling: 'both' | 'one' | 'none';
};

/**
 * Returns the rules for a model. A model of another name, on another server of this API, gets conservative
 * rules.
 */
export function modelRules(model: string): ModelRules {
  const preview = model.includes('claude-mythos-preview');
  const [, before, major, minor, after] = preview ? MYTHOS_PREVIEW : (VERSION.exec(model) ?? []);
  if (major === undefined) return UNKNOWN;
  const family = before ?? after ?? '';
  const version = Number(major) * 100 + Number(minor ?? 0);
  const thinksByDefault = version >= 500 || preview;
  return {
    maxOutputTokens: outputTokens(version),
    thinking: thinkingForm(version),
    thinksByDefault,
    thinkingOff: thinksByDefault ? thinkingOff(family, version) : 'default',
    extraHighEffort: version >= 407,
    forcedChoice: version <= 500,
    nativeOutput: version >= 405 || (version === 401 && family === 'opus'),
    sampling: samplingRule(version),
  };
}

const VERSION =
  /claude-(?:(opus|sonnet|haiku|fable|mythos)-)?(\d+)(?:[-.](\d{1,2})(?!\d))?(?!\d)(?:-(opus|sonnet|haiku))?/;

const MYTHOS_PREVIEW = ['', 'mythos', '4', '7'];

const UNKNOWN: ModelRules = {
  maxOutputTokens: 8_192,
  thinking: 'budget',
  thinksByDefault: false,
  thinkingOff: 'default',
  extraHighEffort: false,
  forcedChoice: true,
  nativeOutput: false,
  sampling: 'both',
};

function outputTokens(version: number): number {
  if (version >= 405) return 64_000;
  if (version >= 307) return 32_000;
  return version >= 305 ? 8_192 : 4_096;
}

function thinkingForm(version: number): ModelRules['thinking'] {
  if (version < 307) return 'never';
  return version < 406 ? 'budget' : 'adaptive';
}

function samplingRule(version: number): ModelRules['sampling'] {
  if (version < 401) return 'both';
  return version < 407 ? 'one' : 'none';
}

function thinkingOff(family: string, version: number): ModelRules['thinkingOff'] {
  if (family === 'haiku' || (version < 505 && (family === 'opus' || family === 'sonnet'))) return 'disabled';
  return family === 'sonnet' ? 'between_tools' : 'impossible';
}
