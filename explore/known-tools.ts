import { type Condition, type RuleCall, selects } from '../rules/condition.ts';

/** The tools of an agent, as far as they are known. */
export type KnownTools = {
  tools: readonly (Pick<RuleCall, 'name'> & { tags?: readonly string[] })[];
  /** Tool servers are not connected, so that the agent may have other tools; with `tags`, as far as they are known. */
  lacks?: { tags: readonly string[] };
};

/** Of a server that is not connected, the tags are known and the names of its tools are not. */
export function isKnown(selector: string, { tools, lacks }: KnownTools): boolean {
  if (lacks !== undefined && (!selector.startsWith('#') || lacks.tags.includes(selector.slice(1))))
    return true;
  return tools.some(({ name, tags = [] }) => selects(selector, { name, tags }));
}

/** What a condition names although no tool of the agent has this name or tag. */
export function unknownIn({ selectors }: Condition, known: KnownTools): string[] {
  return selectors.filter(selector => !isKnown(selector, known));
}
