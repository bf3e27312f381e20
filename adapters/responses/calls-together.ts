import type { Item } from '../../protocol/item.ts';

/** The same items; what a model said between its calls goes before them, so that their results follow at once. */
export function withCallsTogether<Kind extends Item>(items: readonly Kind[]): Kind[] {
  const ordered: Kind[] = [];
  let calls: Kind[] = [];
  for (const item of items) {
    if (item.type === 'tool_call') {
      calls.push(item);
      continue;
    }
    if (item.type === 'tool_result' || (item.type === 'message' && item.role !== 'assistant')) {
      ordered.push(...calls);
      calls = [];
    }
    ordered.push(item);
  }
  return [...ordered, ...calls];
}
