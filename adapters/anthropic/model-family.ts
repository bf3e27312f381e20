/** A value of `thinking.type`. */
type ThinkingMode = 'enabled' | 'adaptive' | 'disabled' | 'between_tools';

/** What the models of one line and version accept. */
export type ModelFamily = {
  /**
   * Whether the table below has this version or a later one of its line. Nothing is refused before the request for
   * other models: they may accept again what their predecessors do not.
   */
  known: boolean;
  /** The default of `max_tokens`, at most the model's output limit. */
  maxOutputTokens: number;
  /** The values of `thinking.type` that are accepted; none if the model cannot think. */
  thinkingModes: readonly ThinkingMode[];
  thinksByDefault: boolean;
  /** Thinking has no text unless the request has `thinking.display`; so has text between calls on the newest. */
  hidesThinking: boolean;
  extraHighEffort: boolean;
  sampling: 'both' | 'one' | 'none';
  /** When a call can be forced: always, only without thinking, or never. */
  forcedChoice: 'always' | 'unthinking' | 'never';
  /** Whether a transcript may end with the beginning of the answer. */
  prefill: boolean;
  /** Whether a schema can be enforced: `output_config.format` and `strict` tools. */
  nativeOutput: boolean;
  /** Thinking is only valid after the system prompt, tools and messages that it was written after. */
  bindsThinking: boolean;
  /** Whether a message of the role `system` may follow other messages. */
  midConversationSystem: boolean;
  /** Whether such a message may have `tool_addition` and `tool_removal` blocks (a beta feature). */
  toolChanges: boolean;
  /** Whether the provider's tool search works with it. */
  toolSearch: boolean;
  /** The API version to ask for; an earlier one if the request has a parameter that this one has removed. */
  apiVersion: string;
};

export const FIRST_API_VERSION = '2023-06-01';
const API_VERSION = '2026-10-21';

/** The first models; also those of another name, on another server of this API. */
const FIRST: ModelFamily = {
  known: true,
  maxOutputTokens: 4_096,
  thinkingModes: [],
  thinksByDefault: false,
  hidesThinking: false,
  extraHighEffort: false,
  sampling: 'both',
  forcedChoice: 'unthinking',
  prefill: true,
  nativeOutput: false,
  bindsThinking: false,
  midConversationSystem: false,
  toolChanges: false,
  toolSearch: false,
  apiVersion: FIRST_API_VERSION,
};

const FOREIGN: ModelFamily = {
  ...FIRST,
  known: false,
  maxOutputTokens: 8_192,
  thinkingModes: ['enabled', 'disabled'],
};

/**
 * What changed with which version (507 is 5.7) of which lines (all if none is named). A model has the changes of every
 * row up to its version, later rows over earlier ones. To add a model, add a row for what it changes and raise `KNOWN`.
 *
 * Source: https://platform.claude.com/docs/en/models/overview, each model's pages "What's new" and "Migration guide",
 * …/build-with-claude/{thinking-troubleshooting,preserved-thinking,mid-conversation-system-messages}, and
 * …/agents-and-tools/tool-use/tool-search-tool#model-compatibility.
 */
const CHANGES: readonly { since: number; lines?: readonly string[]; change: Partial<ModelFamily> }[] = [
  { since: 305, change: { maxOutputTokens: 8_192 } },
  { since: 307, change: { maxOutputTokens: 32_000, thinkingModes: ['enabled', 'disabled'] } },
  { since: 401, change: { sampling: 'one' } },
  { since: 401, lines: ['opus'], change: { nativeOutput: true } },
  { since: 405, change: { maxOutputTokens: 64_000, nativeOutput: true, toolSearch: true } },
  { since: 406, change: { thinkingModes: ['adaptive', 'enabled', 'disabled'], prefill: false } },
  {
    since: 407,
    change: {
      thinkingModes: ['adaptive', 'disabled'],
      hidesThinking: true,
      extraHighEffort: true,
      sampling: 'none',
      apiVersion: API_VERSION,
    },
  },
  { since: 408, lines: ['opus'], change: { midConversationSystem: true, toolChanges: true } },
  { since: 500, change: { thinksByDefault: true } },
  {
    since: 500,
    lines: ['fable', 'mythos'],
    change: {
      thinkingModes: ['adaptive'],
      forcedChoice: 'always',
      midConversationSystem: true,
      toolChanges: true,
    },
  },
  { since: 501, lines: ['fable', 'mythos'], change: { forcedChoice: 'never', bindsThinking: true } },
  {
    since: 505,
    change: {
      thinkingModes: ['adaptive'],
      forcedChoice: 'never',
      bindsThinking: true,
      midConversationSystem: true,
      toolChanges: true,
    },
  },
  { since: 505, lines: ['sonnet'], change: { thinkingModes: ['adaptive', 'between_tools'] } },
  {
    since: 505,
    lines: ['haiku'],
    change: { thinkingModes: ['adaptive', 'disabled'], forcedChoice: 'always' },
  },
];

/** The latest version of each line that the table was written for. */
const KNOWN: Readonly<Record<string, number>> = {
  opus: 505,
  sonnet: 505,
  haiku: 505,
  fable: 502,
  mythos: 502,
};

const MYTHOS_PREVIEW: ModelFamily = {
  ...familyFor('mythos', 407),
  thinkingModes: ['adaptive', 'enabled'],
  thinksByDefault: true,
};

const VERSION = /claude-(?:([a-z]+)-)?(\d+)(?:[-.](\d{1,2})(?!\d))?(?![\da-z])(?:-(opus|sonnet|haiku))?/;

/** What a model accepts, judged by its name, also with the prefixes and suffixes of other platforms. */
export function familyOf(model: string): ModelFamily {
  if (model.includes('claude-mythos-preview')) return MYTHOS_PREVIEW;
  const [, before, major, minor, after] = VERSION.exec(model) ?? [];
  if (major === undefined) return FOREIGN;
  return familyFor(before ?? after ?? '', Number(major) * 100 + Number(minor ?? 0));
}

function familyFor(line: string, version: number): ModelFamily {
  const family: ModelFamily = { ...FIRST, known: version <= (KNOWN[line] ?? 400) };
  for (const { since, lines, change } of CHANGES) {
    if (version >= since && (lines?.includes(line) ?? true)) Object.assign(family, change);
  }
  return family;
}
