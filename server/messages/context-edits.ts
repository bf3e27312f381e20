/** `context_management`: what Anthropic's models get as it is, and what this server does for others. */
import * as z from 'zod';
import { objectsOf } from '../../adapters/turn/json-access.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { shortenToolName } from '../../tools/unique-tool-names.ts';
import { fields, maybe } from '../fields.ts';
import type { Clearing } from '../gateway/request/clear-context.ts';
import { describeProblem, invalidAt } from './message-error.ts';

const count = z.int().nonnegative();
const inputTokens = fields({ type: z.literal('input_tokens'), value: count });
const toolUses = fields({ type: z.literal('tool_uses'), value: count });
const names = z.array(z.string().max(128)).max(1_000);

const NOT_HERE = 'This field is only supported for models of Anthropic.';

/** Defaults as at Anthropic: https://platform.claude.com/docs/en/build-with-claude/context-editing, …/compaction. */
const edit = z.discriminatedUnion('type', [
  fields({
    type: z.literal('clear_thinking_20251015'),
    keep: maybe(
      z.union([
        z.literal('all'),
        fields({ type: z.literal('all') }),
        fields({ type: z.literal('thinking_turns'), value: z.int().positive() }),
      ]),
    ),
  }),
  fields({
    type: z.literal('clear_tool_uses_20250919'),
    trigger: maybe(z.discriminatedUnion('type', [inputTokens, toolUses])),
    keep: maybe(toolUses),
    clear_at_least: maybe(inputTokens),
    clear_tool_inputs: maybe(z.union([z.boolean(), names])),
    exclude_tools: maybe(names),
  }),
  fields({
    type: z.literal('compact_20260112'),
    trigger: maybe(inputTokens),
    pause_after_compaction: maybe(z.boolean()),
    instructions: maybe(z.never(NOT_HERE)),
  }),
]);

const management = fields({ edits: maybe(z.array(edit).max(10)) });

type Edits = NonNullable<z.infer<typeof management>['edits']>;

type ContextEdits = { clearings: Clearing[]; compactAt: number | undefined };

/** What the edits ask for, without those that change nothing; `compactAt` in tokens. Throws a `ResponsesError`. */
export function readEdits(given: JsonObject): ContextEdits {
  const parsed = management.safeParse(given);
  const [issue] = parsed.error?.issues ?? [];
  if (issue !== undefined) throw describeProblem({ ...issue, path: ['context_management', ...issue.path] });
  const edits = parsed.data?.edits ?? [];
  const compacts = edits.find(({ type }) => type === 'compact_20260112');
  const compactAt = compacts?.type === 'compact_20260112' ? (compacts.trigger?.value ?? 150_000) : undefined;
  return { clearings: edits.flatMap(clearingOf), compactAt };
}

/** Refuses `pause_after_compaction`: an answer continues after its compaction, with every provider. */
export function assertNoPause({ edits }: JsonObject): void {
  for (const [at, edit] of objectsOf(edits).entries())
    if (edit.pause_after_compaction === true)
      throw invalidAt(
        `context_management.edits.${at}.pause_after_compaction`,
        'This field is not supported: the answer always continues after a compaction.',
      );
}

function clearingOf(asked: Edits[number]): Clearing[] {
  switch (asked.type) {
    case 'clear_thinking_20251015': {
      const { keep } = asked;
      if (keep === 'all' || keep?.type === 'all') return [];
      return [{ type: 'thinking', keep: keep?.value ?? 1 }];
    }
    case 'clear_tool_uses_20250919': {
      const { trigger, keep, clear_at_least, clear_tool_inputs: inputs, exclude_tools } = asked;
      const above =
        trigger?.type === 'tool_uses' ? { uses: trigger.value } : { tokens: trigger?.value ?? 100_000 };
      return [
        {
          type: 'tool_uses',
          above,
          keep: keep?.value ?? 3,
          atLeastTokens: clear_at_least?.value ?? 0,
          inputs: Array.isArray(inputs) ? inputs.map(name => shortenToolName(name)) : (inputs ?? false),
          except: (exclude_tools ?? []).map(name => shortenToolName(name)),
        },
      ];
    }
    case 'compact_20260112':
      return [];
  }
}
