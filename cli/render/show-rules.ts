import type {
  AskedPeople,
  BacktestCase,
  BacktestReport,
  CallOutcome,
  Counts,
  Unjudged,
} from '../../explore/backtest/report.ts';
import type { RuleView } from '../../explore/ruled-agents.ts';
import type { Duties } from '../../protocol/event.ts';
import { describeUnknownSelector } from '../../visualizer/describe-exploration.ts';
import type { CommandLines } from './command-lines.ts';
import { plural } from './format.ts';
import { bold, dim, type Output, type Segment, yellow } from './output.ts';

type Listed = { agent: string; rules: readonly RuleView[]; lacksTools: boolean };

const KINDS: Readonly<Record<RuleView['kind'], string>> = {
  condition: 'a condition, which can be proved',
  function: 'a function, which is enforced and cannot be proved',
};

export function showRules(output: Output, { agent, rules, lacksTools }: Listed): void {
  if (rules.length === 0) output.line(`${agent} has no rules.`);
  for (const rule of rules) {
    showName(output, rule, agent);
    output.line('  ', describeEffect(rule));
    output.line(dim(`  over the ${rule.per === 'run' ? 'run' : 'whole thread'}; ${KINDS[rule.kind]}`));
    output.line('');
  }
  if (lacksTools)
    output.line(
      yellow('note '),
      'The tools of tool servers are not known, so names of tools are not checked. Use --connect to list them.',
    );
}

/** The name of a rule, with what it says if that is not its name, and what it names that the agent lacks. */
function showName(output: Output, rule: RuleView, top: string): void {
  const { name, agent, mode, words, unknown } = rule;
  output.line(
    bold(name),
    agent === top ? '' : dim(` of ${agent}`),
    mode === 'shadow' ? yellow('  shadow: only recorded') : '',
  );
  if (words !== undefined && words !== name) output.line('  ', words);
  for (const selector of unknown) output.line(yellow('  warning '), describeUnknownSelector(agent, selector));
}

function describeEffect(rule: RuleView): string {
  const { kind, verdict, reason } = rule;
  const effects = {
    block: 'refuses the call, and the model reads why',
    ask: `asks ${describePeople(rule)} to approve the call`,
    stop: 'refuses the call and ends the run',
  };
  const effect = `${kind === 'function' ? 'by default, ' : ''}${effects[verdict]}`;
  return reason === undefined ? effect : `${effect}: ${reason}`;
}

function describePeople({ by, not, quorum = 1 }: Duties): string {
  const groups = by === undefined ? 'anyone' : by.join(' or ');
  const others =
    not === undefined ? '' : ` but ${not === 'starter' ? 'who started the run' : 'who wrote in the run'}`;
  return `${quorum > 1 ? `${quorum} of ` : ''}${groups}${others}`;
}

export function showBacktest(output: Output, report: BacktestReport, commands: CommandLines): void {
  const { agent, runs, calls, complete, rules, approvals, unjudged, skipped } = report;
  output.line(bold(agent), `  ${plural(runs, 'run')} read, ${plural(calls, 'call')} judged`);
  if (!complete) output.line(yellow('Stopped: not all runs were read.'));
  output.line('');
  if (rules.length + approvals.length === 0)
    output.line(`${agent} has no rules and no approval functions: there is nothing to try.`);
  for (const rule of rules) {
    showName(output, rule, agent);
    showCounts(output, rule, commands);
  }
  for (const { tool, agent: owner, ...counts } of approvals) {
    output.line(bold(`approval of ${tool}`), owner === agent ? '' : dim(` of ${owner}`));
    showCounts(output, counts, commands);
  }
  for (const one of unjudged)
    output.line(
      yellow('not judged '),
      `${plural(one.count, 'call')} of ${one.tool}: ${one.message}`,
      first(one, commands),
    );
  for (const { message, count, runId } of skipped)
    output.line(
      yellow('not read '),
      `${plural(count, 'run')}: ${message}`,
      runId === '' ? '' : dim(` (${runId})`),
    );
  if (rules.some(({ block, stop, ask }) => block + stop + ask > 0))
    output.line(
      dim('Runs are judged as they went. After a call that is refused or waits, a model may go another way.'),
    );
}

function showCounts(output: Output, counts: Counts, commands: CommandLines): void {
  const { ask, block, stop, runs, same, dropped, asks, unjudged, cases } = counts;
  const said = ask + block + stop;
  const verdicts = [
    ...asks.map(describeAsked),
    ...(block > 0 ? [`would refuse ${plural(block, 'call')}`] : []),
    ...(stop > 0 ? [`would end the run at ${plural(stop, 'call')}`] : []),
  ];
  if (said + dropped === 0) output.line(dim('  allows all calls, as then'));
  if (said > 0) {
    output.line('  ', verdicts.join('; '), `, in ${plural(runs, 'run')}`);
    output.line(dim(`  the run did the same with ${describeSame(said, same)} of them`));
  }
  if (dropped > 0) output.line(`  allows ${plural(dropped, 'call')} that it did not allow then`);
  for (const one of unjudged)
    output.line(
      yellow('  not judged '),
      `${plural(one.count, 'call')}: ${one.message}`,
      first(one, commands),
    );
  for (const one of cases) showCase(output, one, commands);
  const rest = said + dropped - cases.length;
  if (rest > 0) output.line(dim(`    and ${plural(rest, 'more case')}`));
  output.line('');
}

function describeAsked({ count, ...duties }: AskedPeople): string {
  return `would ask ${describePeople(duties)} about ${plural(count, 'call')}`;
}

function describeSame(said: number, same: number): string {
  if (same === 0) return 'none';
  return same === said ? 'all' : String(same);
}

function showCase(output: Output, one: BacktestCase, commands: CommandLines): void {
  const { runId, seq, callId, tool, then, asked, now } = one;
  const [before, after] = [describeOutcome(then, asked), describeOutcome(now, one)];
  const change = before === after ? after : `${before} → ${after}`;
  output.line(`    ${tool} (${callId}): ${change}  `, dim(commands.of('show', runId, '--at', String(seq))));
}

function describeOutcome(outcome: CallOutcome, duties: Duties = {}): string {
  switch (outcome) {
    case 'allow':
      return 'allowed';
    case 'ask':
      return `asked ${describePeople(duties)}`;
    case 'block':
      return 'refused';
    case 'stop':
      return 'ended the run';
  }
}

function first({ runId, seq }: Unjudged, commands: CommandLines): Segment {
  return dim(`  ${commands.of('show', runId, '--at', String(seq))}`);
}
