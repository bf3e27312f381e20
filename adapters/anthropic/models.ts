/**
 * What a model takes, by its name. From https://platform.claude.com/docs/en/about-claude/models/overview
 * and the pages on thinking, effort and structured outputs.
 */
export type ModelRules = {
  /** What `max_tokens` is when nobody says; at most what the model can write. */
  maxOutputTokens: number;
  /** How it is asked to think: not at all, with a budget of tokens, or as it sees fit. */
  thinking: 'never' | 'budget' | 'adaptive';
  /** It thinks unless it is told not to. */
  thinksUnasked: boolean;
  /** How it is told not to think: by not asking, by this `thinking.type`, or in no way. */
  thinkingOff: 'unasked' | 'disabled' | 'between_tools' | 'impossible';
  /** The effort `xhigh` is known. */
  extraHighEffort: boolean;
  /** `tool_choice` may force a call while the model does not think. */
  forcedChoice: boolean;
  /** It can be held to a schema: `output_config.format`, and `strict` tools. */
  nativeOutput: boolean;
  /** How many of `temperature` and `top_p` a request may have. */
  sampling: 'both' | 'one' | 'none';
};

/** Models that are not Claude by name are taken for the oldest that can think: other servers speak this API too. */
export function modelRules(model: string): ModelRules {
  const preview = model.includes('claude-mythos-preview');
  const [, before, major, minor, after] = preview ? MYTHOS_PREVIEW : (VERSION.exec(model) ?? []);
  if (major === undefined) return UNKNOWN;
  const family = before ?? after ?? '';
  const version = Number(major) * 100 + Number(minor ?? 0);
  const unasked = version >= 500 || preview;
  return {
    maxOutputTokens: outputTokens(version),
    thinking: version < 307 ? 'never' : version < 406 ? 'budget' : 'adaptive',
    thinksUnasked: unasked,
    thinkingOff: unasked ? thinkingOff(family, version) : 'unasked',
    extraHighEffort: version >= 407,
    forcedChoice: version <= 500,
    nativeOutput: version >= 405 || (version === 401 && family === 'opus'),
    sampling: version < 401 ? 'both' : version < 407 ? 'one' : 'none',
  };
}

const VERSION =
  /claude-(?:(opus|sonnet|haiku|fable|mythos)-)?(\d+)(?:[-.](\d{1,2})(?!\d))?(?!\d)(?:-(opus|sonnet|haiku))?/;

const MYTHOS_PREVIEW = ['', 'mythos', '4', '7'];

const UNKNOWN: ModelRules = {
  maxOutputTokens: 8_192,
  thinking: 'budget',
  thinksUnasked: false,
  thinkingOff: 'unasked',
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

function thinkingOff(family: string, version: number): ModelRules['thinkingOff'] {
  if (family === 'haiku' || (version < 505 && (family === 'opus' || family === 'sonnet'))) return 'disabled';
  return family === 'sonnet' ? 'between_tools' : 'impossible';
}
