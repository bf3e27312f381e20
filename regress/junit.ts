import { showSafely } from '../text/show-safely.ts';
import { describeKind, describeShown } from './describe-report.ts';
import type { RegressReport } from './report.ts';
import type { Difference, PlayedRun } from './report-sums.ts';

/**
 * A report as JUnit's XML: a test case for each run. It fails if it has other effects that the baseline does not show as
 * often; it is skipped if it is undecidable. An interrupted job is an error. `name`: of the agent.
 */
export function formatJUnit(report: RegressReport, name: string): string {
  const { complete, played, differences, otherEffects } = report;
  const byRun = Map.groupBy(differences, ({ runId }) => runId);
  const cases = played.map(run => describeCase(run, byRun.get(run.runId) ?? []));
  const counts = {
    tests: cases.length + (complete ? 0 : 1),
    failures: cases.filter(({ result }) => result === 'failure').length,
    errors: complete ? 0 : 1,
    skipped: cases.filter(({ result }) => result === 'skipped').length,
  };
  const totals = attributes({ name: 'agentchart regress', ...counts });
  const message = `Interrupted after ${played.length} runs, ${otherEffects} of them with other effects.`;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites${totals}>`,
    `  <testsuite${attributes({ ...counts, name })}>`,
    ...cases.map(({ runId, lines }) => formatCase(name, runId, lines)),
    ...(complete ? [] : [formatCase(name, 'all runs', [`<error${attributes({ message })}/>`])]),
    '  </testsuite>',
    '</testsuites>',
    '',
  ].join('\n');
}

type Case = { runId: string; result: 'passed' | 'failure' | 'skipped'; lines: string[] };

function describeCase({ runId, sameness, why = 'unknown' }: PlayedRun, differences: Difference[]): Case {
  if (sameness === 'undecidable')
    return { runId, result: 'skipped', lines: [`<skipped${attributes({ message: why })}/>`] };
  const lines = differences.map(describeDifference);
  const [first] = differences.filter(({ kind, noise }) => kind !== 'score' && noise !== true);
  if (sameness === 'otherEffects' && first !== undefined) {
    const head = attributes({ type: first.kind, message: describeDifference(first) });
    return { runId, result: 'failure', lines: [`<failure${head}>${escapeXml(lines.join('\n'))}</failure>`] };
  }
  const noted = lines.length === 0 ? [] : [`<system-out>${escapeXml(lines.join('\n'))}</system-out>`];
  return { runId, result: 'passed', lines: noted };
}

function describeDifference(one: Difference): string {
  const shown = describeShown(one);
  return `turn ${one.turn}, ${describeKind(one)}: ${showSafely(one.detail)}${shown === '' ? '' : ` (${shown})`}`;
}

function formatCase(classname: string, name: string, lines: readonly string[]): string {
  const head = `    <testcase${attributes({ classname, name })}`;
  if (lines.length === 0) return `${head}/>`;
  return [`${head}>`, ...lines.map(line => `      ${line}`), '    </testcase>'].join('\n');
}

function attributes(values: Readonly<Record<string, string | number>>): string {
  return Object.entries(values)
    .map(([name, value]) => ` ${name}="${escapeXml(showSafely(String(value)))}"`)
    .join('');
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

/** XML takes no lone surrogates, and not the last two characters of the first plane. */
function escapeXml(text: string): string {
  return text
    .toWellFormed()
    .replace(/[\ufffe\uffff]/g, '\ufffd')
    .replace(/[&<>"]/g, char => ENTITIES[char] ?? '');
}
