import { invalidInput } from '../protocol/error.ts';
import { readGroups } from '../protocol/tool.ts';
import { never } from '../rules/condition.ts';
import { isKnown, type KnownTools } from './known-tools.ts';
import type { MonitoredRule } from './monitor.ts';

const GRAMMAR =
  /^\s*(?<what>\S+)(?:\s+after\s+(?<after>\S+))?(?:\s+unless\s+approved(?:\s+by\s+(?<group>.*\S))?(?<approved>))?\s*$/;

const EXPECTED =
  "'TOOL|#TAG [after TOOL|#TAG] [unless approved [by GROUP]]', such as 'refund unless approved by manager'";

/**
 * Reads what may never start: `refund`, `#leaves after #untrusted`, `refund unless approved by manager`. Throws
 * `input-invalid` for another text, and for a name that no tool has, unless more tools than these may exist.
 */
export function readNever(text: string, { tools, lacks }: KnownTools): MonitoredRule {
  const { what, after, group, approved } = GRAMMAR.exec(text.slice(0, MOST_CHARS))?.groups ?? {};
  if (what === undefined || text.length > MOST_CHARS)
    throw invalidInput(`never: expected ${EXPECTED}, got ${JSON.stringify(text.slice(0, MOST_CHARS))}.`);
  for (const selector of [what, after]) {
    if (selector === undefined || lacks !== undefined || isKnown(selector, { tools })) continue;
    const known = tools.flatMap(({ name, tags = [] }) => [name, ...tags.map(tag => `#${tag}`)]);
    throw invalidInput(
      `never: no tool ${selector.startsWith('#') ? 'has the tag' : 'is named'} "${selector}". Expected one of: ${[...new Set(known)].join(', ') || 'nothing, the agent has no tools'}.`,
    );
  }
  const by = group === undefined ? undefined : readGroups(group);
  const condition = after === undefined ? never(what) : never(what).after(after);
  const words = `never ${text.trim().split(/\s+/).join(' ')}`;
  return { name: words, condition, ...(approved === undefined ? {} : { unless: { ...(by && { by }) } }) };
}

const MOST_CHARS = 1_000;
