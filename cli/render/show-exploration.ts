import type { ForwardReport } from '../../explore/explore-from.ts';
import type { PathEntry } from '../../explore/explorer.ts';
import type { BreachReport, ExplorationReport, RuleReport } from '../../explore/report.ts';
import {
  describeToolStart,
  describeUnfinished,
  describeUnknownSelector,
  describeVerdict,
  NOT_PROVED,
} from '../../visualizer/describe-exploration.ts';
import { eventLine } from './format.ts';
import { bold, cyan, dim, green, type Output, red, type Segment, yellow } from './output.ts';

const APPROVALS: Readonly<Record<ExplorationReport['tools'][number]['approval'], string>> = {
  never: 'never',
  always: 'always',
  function: 'by a function',
  pure: 'by a pure function',
};

export function showExploration(output: Output, report: ExplorationReport | ForwardReport): void {
  const { agent, complete, states, edges, crashPoints, decisions, steps, tools } = report;
  const { breaches, notes, unfinished } = report;
  output.line(bold(agent));
  for (const tool of tools) {
    const { name, sideEffect, executedBy, reconcilable, approval, inputs, asks } = tool;
    const traits = [
      sideEffect,
      ...(executedBy === 'client' ? ['client tool'] : []),
      ...(tool.isSubAgent ? ['sub-agent'] : []),
      ...(reconcilable ? ['reconcilable'] : []),
      `approval ${APPROVALS[approval]}`,
      ...(asks === undefined ? [] : [`which asks for ${asks} of ${inputs} inputs`]),
    ];
    output.line(dim('  tool '), name, dim(`  ${traits.join(', ')}`));
  }
  output.line('');
  const row = output.facts(14);
  row('states', `${states}${complete ? ' (all)' : ' (incomplete)'}`);
  row('edges', `${edges.taken} of ${edges.total} in the chart`);
  row('crash points', String(crashPoints));
  row('decisions', String(decisions));
  row('steps', String(steps));
  row('invariants', `${report.invariants.length}, checked at every step`);
  if (edges.missing.length > 0 && !('at' in report)) {
    output.line('');
    output.line(dim('edges not reached:'));
    for (const edge of edges.missing) output.line(dim(`  ${shortenEdge(edge)}`));
  }
  output.line('');
  for (const note of notes) output.line(yellow('note '), note);
  for (const walks of unfinished) output.line(yellow('not walked '), describeUnfinished(walks));
  if (notes.length + unfinished.length > 0) output.line('');
  const first = 'at' in report ? report.at + 1 : 0;
  for (const breach of breaches) showBreach(output, breach, first);
  for (const rule of report.rules) showRule(output, rule, agent, first);
  output.line(describeEnd(report));
}

function describeEnd({ breaches, rules, complete }: ExplorationReport): Segment {
  const broken = rules.filter(({ verdict, only }) => verdict === 'broken' && only === undefined).length;
  if (breaches.length > 0)
    return red(`${breaches.length} invariant${breaches.length === 1 ? '' : 's'} violated.`);
  if (broken > 0) return red(`${broken} rule${broken === 1 ? '' : 's'} broken.`);
  return complete ? green('All invariants hold.') : yellow(NOT_PROVED);
}

function showBreach(output: Output, { invariant, message, path }: BreachReport, first: number): void {
  output.line(red('violated  '), bold(invariant));
  output.line(`          ${message}`);
  showPath(output, path, first);
}

/** `first`: the number of the first entry. */
export function showPath(output: Output, path: readonly PathEntry[], first: number): void {
  for (const [index, entry] of path.entries()) output.line(...describeEntry(entry, first + index));
  output.line('');
}

const COLORS = { proved: green, broken: red, 'not-proved': yellow } as const;

function showRule(output: Output, rule: RuleReport, agent: string, first: number): void {
  const { name, verdict, path, unknown = [] } = rule;
  output.line('rule ', bold(name), ': ', COLORS[verdict](describeVerdict(rule)));
  for (const selector of unknown) output.line(yellow('  warning '), describeUnknownSelector(agent, selector));
  if (path !== undefined) showPath(output, path, first);
}

function describeEntry({ event, state, why }: PathEntry, index: number): Segment[] {
  const facts = eventLine(event);
  return [
    dim(`${String(index).padStart(5)}  `),
    event.type.padEnd(20),
    ...(facts === '' ? [] : [` ${facts}`]),
    cyan(`  → ${state}`),
    ...(why === null ? [] : [dim(` — ${why}`)]),
  ];
}

function shortenEdge(edge: string): string {
  return edge.replace(/always \[\{"type":"next","params":\{"type":"(\w+)"[^\]]*\]/, 'decided $1');
}

export function showAhead(output: Output, report: ForwardReport): void {
  const { runId, at, state, ahead, starts, approvals, left, complete } = report;
  const row = output.facts(14);
  output.line(bold(runId), ` at entry ${at}: ${state}`);
  output.line('');
  row('can come', ahead.map(one => `${one.state} (${one.path.length})`).join(', ') || 'nothing');
  for (const { callId, name } of approvals) row('asks now', `${name} (${callId})`);
  for (const start of starts) row(start.tool, describeToolStart(start, complete));
  const { turns, toolCalls, tokens, cost } = left;
  row('turns left', `${turns.most}, after ${turns.spent}`);
  row('calls left', `${toolCalls.most}, after ${toolCalls.spent}`);
  row('tokens left', `${tokens.most ?? 'no limit'}, after ${tokens.spent}`);
  row('cost left', `${cost.most ?? 'no limit'}, after ${cost.spent}`);
  output.line('');
}
