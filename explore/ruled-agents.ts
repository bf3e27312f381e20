import type { Agent } from '../agent/agent.ts';
import { defineAgent } from '../agent/agent-options.ts';
import { ledgerTool } from '../agent/ledger-tool.ts';
import { agentNamed, namesOf, placedOptions } from '../agent/sub-agents.ts';
import { dutiesOf } from '../machines/duties.ts';
import type { Duties } from '../protocol/event.ts';
import { omitUndefined } from '../protocol/json.ts';
import type { RuleVerdict } from '../protocol/rule.ts';
import type { Store } from '../protocol/store.ts';
import type { Tool } from '../protocol/tool.ts';
import { isCondition } from '../rules/condition.ts';
import { type Rule, rulingOf } from '../rules/rule.ts';
import { connectTools, isToolSource, listTools } from '../tools/connect-tools.ts';
import { type KnownTools, unknownIn } from './known-tools.ts';

/** An agent with all that its rules and approval functions depend on. */
export type RuledAgent = Pick<KnownTools, 'lacks'> & {
  name: string;
  rules: readonly Rule[];
  tools: ReadonlyMap<string, Tool>;
  /** Guardrails may ask for an approval of a call too. */
  hasGuardrails: boolean;
};

/** A rule in words. A function may give other verdicts than `verdict`. */
export type RuleView = Duties & {
  agent: string;
  name: string;
  kind: 'condition' | 'function';
  verdict: RuleVerdict;
  mode: 'enforce' | 'shadow';
  per: 'thread' | 'run';
  /** What a condition says. */
  words?: string;
  reason?: string;
  /** What the condition names although no tool of the agent has this name or tag. */
  unknown: string[];
};

/**
 * An agent and its sub-agents, with their rules. `connects`: starts their tool servers to list the tools; otherwise those
 * are left out. Calls no function of the agents.
 */
export async function ruledAgents(
  agent: Agent,
  store: Store,
  connects: boolean,
): Promise<{ agents: ReadonlyMap<string, RuledAgent>; close(): Promise<void> }> {
  const agents = new Map<string, RuledAgent>();
  const closing: (() => Promise<void>)[] = [];
  const close = async () => void (await Promise.all(closing.map(end => end())));
  try {
    for (const name of new Set(namesOf(agent))) {
      const found = agentNamed(agent, name) ?? agent;
      const options = placedOptions(found.options, { ...agent.options, store });
      const { rules, tools, guardrails, compaction } = defineAgent(options);
      const tellsLedger = compaction !== undefined && options.compaction?.tellsLedger !== false;
      const entries = [...tools, ...(tellsLedger ? [ledgerTool(store)] : [])];
      const connected = connects ? await connectTools(entries) : undefined;
      if (connected !== undefined) closing.push(connected.close);
      const sources = entries.filter(isToolSource);
      const lacks = { tags: sources.flatMap(({ tags = [] }) => tags) };
      agents.set(name, {
        name,
        rules,
        tools: connected?.tools ?? listTools(entries.filter(entry => !isToolSource(entry))) ?? new Map(),
        hasGuardrails: guardrails.toolInput.length > 0,
        ...(sources.length > 0 && connected === undefined && { lacks }),
      });
    }
  } catch (error) {
    await close().catch(() => {});
    throw error;
  }
  return { agents, close };
}

export function viewRule(agent: RuledAgent, rule: Rule): RuleView {
  const { name, when, then, isShadow, per } = rule;
  const reason = (typeof then === 'object' ? then.reason : undefined) ?? rule.reason;
  const { verdict, asked } = rulingOf(rule);
  const isWords = isCondition(when);
  return {
    agent: agent.name,
    name,
    kind: isWords ? 'condition' : 'function',
    verdict,
    ...(asked && dutiesOf(asked)),
    mode: isShadow ? 'shadow' : 'enforce',
    per,
    ...omitUndefined({ words: isWords ? when.words : undefined, reason }),
    unknown: isWords ? unknownIn(when, { ...agent, tools: [...agent.tools.values()] }) : [],
  };
}
