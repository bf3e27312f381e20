import fc from 'fast-check';
import { marked } from 'marked';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CommandLines } from '../../cli/render/command-lines.ts';
import { Output } from '../../cli/render/output.ts';
import { showRegress } from '../../cli/render/show-regress.ts';
import { formatJUnit } from '../../regress/junit.ts';
import { formatMarkdown } from '../../regress/markdown.ts';
import type { FoundDifference, PlayedNote } from '../../regress/played-run.ts';
import { type RegressReport, ReportBuilder } from '../../regress/report.ts';
import { makeNote, NEW_REFUND } from '../support/regress/played-runs.ts';
import { randomCases } from '../support/sample.ts';

function reportOf(notes: readonly PlayedNote[], complete = true): RegressReport {
  const builder = new ReportBuilder();
  for (const [place, note] of notes.entries()) builder.add(`played-${place + 1}`, note);
  return builder.report({ complete });
}

const end: FoundDifference = { kind: 'end', turn: 2, detail: 'the run failed (overloaded)' };
const base = (note: PlayedNote): PlayedNote => ({ ...note, side: 'baseline' });

const mixed = reportOf([
  makeNote('run-a'),
  makeNote('run-b', { sameness: 'sameEffects', cost: { recorded: 0.01, candidate: 0.02 } }),
  makeNote('run-c', { differences: [NEW_REFUND, end], stopped: true }),
  makeNote('run-d', { sameness: 'undecidable', why: 'a tool is gone' }),
]);

/** A report whose foreign texts are all this one. */
function foreign(text: string): RegressReport {
  const difference = { ...NEW_REFUND, tool: text, detail: text };
  return reportOf([
    makeNote(text, { differences: [difference] }),
    makeNote(`${text}2`, { sameness: 'undecidable', why: text }),
  ]);
}

const HOSTILE = [
  'a | b',
  String.raw`a \| b \\| c \\\| d`,
  '| --- | --- |',
  '](http://evil.invalid) [x](http://evil.invalid) https://evil.invalid www.evil.invalid',
  '<img src=x onerror=alert(1)> </details> <!-- & "quoted" \'so\'',
  '@everyone #1 **bold** _so_ ~~no~~',
  'code `with` ``ticks``` and ` ',
  '`',
  '```js\nalert(1)\n```',
  '# heading\n\n- item\n\n| a |\n| - |\n| b |',
  '\u001b[31m red \u202e \u0000 \ud800 \uffff \u2028 \r\n ]]>',
  ' ',
  '$& $1',
];
const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc
    .array(fc.constantFrom('|', '\\', '`', '\n', ' ', '<', '@', ']', '(', 'x'), { maxLength: 30 })
    .map(parts => parts.join('')),
);

describe('in Markdown', () => {
  it('a report reads from its title to the runs that differ', () => {
    expect(formatMarkdown(mixed, ['1 new call of refund.'])).toBe(`## 1 of 3 recorded runs has other effects

- ❌ \`1 new call of refund.\`

|  | runs | same | other words | other effects | undecidable |
| --- | ---: | ---: | ---: | ---: | ---: |
| candidate | 4 | 1 | 1 | 1 | 1 |

| a run | recorded | candidate | difference | 95 % interval |
| --- | ---: | ---: | ---: | ---: |
| cost | $0.0112 | $0.0145 | +30.0 % | −727.8 % to +787.9 % |
| turns | 2.0 | 2.0 | 0.0 % | 0.0 % to 0.0 % |
| tokens | 1,200 | 900 | **−25.0 %** | −25.0 % to −25.0 % |

- 1 run of 3 stopped at a call that was not recorded: the means are over the others.

### By tool

| tool | side effect | differences |
| --- | --- | --- |
| \`refund\` | once | new call in 1 run |

### By run

| run | turn | difference |
| --- | --- | --- |
| \`run-c\` | 1 | **new call** \`${NEW_REFUND.detail}\` |
|  | 2 | **end** \`the run failed (overloaded)\` |

<details><summary>Undecidable: 1</summary>

- 1: \`a tool is gone\`, as \`run-d\`

</details>
`);
  });

  it('figures that are not known are left out', () => {
    const none = { recorded: 0, candidate: 0 };
    const text = formatMarkdown(reportOf([makeNote('run-a', { cost: none, tokens: none })]));
    expect(text).toContain('| turns | 2.0 | 2.0 | 0.0 % | unknown |');
    expect(text).not.toMatch(/\| (cost|tokens) \|/);
    const priceless = { recorded: 0.5, candidate: 0 };
    expect(formatMarkdown(reportOf([makeNote('run-a', { cost: priceless })]))).toContain(
      '- The candidate has no costs: the agent has no prices for its model.',
    );
    const stopped = makeNote('run-a', { differences: [NEW_REFUND], stopped: true });
    expect(formatMarkdown(reportOf([stopped], false))).toContain(
      '- Interrupted: not all runs were played.\n- 1 run of 1 stopped at a call that was not recorded, so there are no means.',
    );
  });

  it('the baseline stands beside the candidate', () => {
    const text = formatMarkdown(
      reportOf([
        makeNote('run-a', { differences: [NEW_REFUND] }),
        base(makeNote('run-a', { differences: [NEW_REFUND] })),
      ]),
    );
    expect(text).toContain('| baseline | 1 | 0 | 0 | 1 | 0 |');
    expect(text).toContain('(also in the baseline, noise)');
    expect(text).toContain('| `refund` | once | new call in 1 run (baseline 1) |');
    expect(text).toMatch(/\| tokens \|.*\| −25.0 % \|\n/);
  });

  it('samples are counted beside each difference', () => {
    const samples = [1, 2, 3].map(sample => makeNote('run-a', { sample, differences: [NEW_REFUND] }));
    const noise = [1, 2, 3].map(sample =>
      base(makeNote('run-a', { sample, ...(sample === 2 && { differences: [NEW_REFUND] }) })),
    );
    expect(formatMarkdown(reportOf(samples))).toContain('` (3 of 3 samples) |');
    expect(formatMarkdown(reportOf([...samples, ...noise]))).toContain(
      '` (3 of 3 samples, baseline 1 of 3) |',
    );
  });

  it('a long report is cut, and says so', () => {
    const differences = Array.from({ length: 9 }, () => NEW_REFUND);
    const text = formatMarkdown(
      reportOf(Array.from({ length: 500 }, (_, at) => makeNote(`run-${at}`, { differences }))),
    );
    expect(text).toContain('… and 440 more runs.');
    expect(text).toContain('| … and 4 more |');
    expect(text.length).toBeLessThan(65_536);
  });

  /** What GitHub would show: all foreign text has to be in code, and the structure is ours. */
  async function shape(report: RegressReport): Promise<string> {
    const html = await marked.parse(formatMarkdown(report, ['failed']), { gfm: true });
    return html.replace(/<code>[^<]*<\/code>/g, '<code/>');
  }

  it.each(HOSTILE)('no text gets out of its code: %j', async text => {
    expect(await shape(foreign(text))).toBe(await shape(foreign('plain')));
  });

  it('no random text gets out of its code', async () => {
    const plain = await shape(foreign('plain'));
    await fc.assert(
      fc.asyncProperty(anyText, async text => {
        expect(await shape(foreign(text))).toBe(plain);
      }),
      { numRuns: randomCases(300) },
    );
  });
});

/** Reads XML of elements, attributes and text, as strictly as its standard: the names and values in their order. */
function readXML(xml: string): string[] {
  expect(xml).not.toMatch(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u);
  const token =
    /<\?xml [^?]*\?>|<([\w-]+)((?: \w+="(?:[^<&"]|&(?:amp|lt|gt|quot);)*")*)(\/?)>|<\/([\w-]+)>|((?:[^<&]|&(?:amp|lt|gt|quot);)+)/gy;
  const [open, found]: [string[], string[]] = [[], []];
  let read = 0;
  for (const [whole, begun, values = '', closed, ended, text = ''] of xml.matchAll(token)) {
    read += whole.length;
    if (begun !== undefined) found.push(`${begun}${values}`);
    if (begun !== undefined && closed === '') open.push(begun);
    if (ended !== undefined) expect(open.pop()).toBe(ended);
    if (text.trim() !== '') found.push(text);
  }
  expect(read).toBe(xml.length);
  expect(open).toEqual([]);
  return found;
}

describe('in JUnit', () => {
  it('each run is a test case', () => {
    const failure = `turn 1, new call: ${NEW_REFUND.detail.replaceAll('"', '&quot;')}`;
    expect(readXML(formatJUnit(mixed, 'support'))).toEqual([
      'testsuites name="agentchart regress" tests="4" failures="1" errors="0" skipped="1"',
      'testsuite tests="4" failures="1" errors="0" skipped="1" name="support"',
      'testcase classname="support" name="run-a"',
      'testcase classname="support" name="run-b"',
      'testcase classname="support" name="run-c"',
      `failure type="new-call" message="${failure}"`,
      `${failure}\nturn 2, end: the run failed (overloaded)`,
      'testcase classname="support" name="run-d"',
      'skipped message="a tool is gone"',
    ]);
  });

  it('noise and a score fail no run, and an interruption is an error', () => {
    const score: FoundDifference = { kind: 'score', turn: 1, detail: 'the score is 0 (was 1)' };
    const report = reportOf(
      [
        makeNote('run-a', { differences: [NEW_REFUND] }),
        base(makeNote('run-a', { differences: [NEW_REFUND] })),
        makeNote('run-b', { sameness: 'same', differences: [score] }),
      ],
      false,
    );
    const read = readXML(formatJUnit(report, 'support'));
    expect(read[0]).toContain('tests="3" failures="0" errors="1" skipped="0"');
    expect(read).toContain('turn 1, score: the score is 0 (was 1)');
    expect(read.at(-1)).toBe('error message="Interrupted after 2 runs, 1 of them with other effects."');
  });

  it.each(HOSTILE)('any text is valid XML: %j', text => {
    expect(readXML(formatJUnit(foreign(text), text))).toHaveLength(7);
  });

  it('any random text is valid XML', () => {
    fc.assert(
      fc.property(anyText, text => {
        expect(readXML(formatJUnit(foreign(text), 'support')).length).toBeGreaterThan(5);
      }),
      { numRuns: randomCases(300) },
    );
  });
});

describe('on a terminal', () => {
  let written = '';

  beforeEach(() => {
    written = '';
    vi.spyOn(process.stdout, 'write').mockImplementation(text => {
      written += String(text);
      return true;
    });
  });
  afterEach(() => {
    vi.restoreAllMocks();
  });

  function show(report: RegressReport, failures: string[] = []): string[] {
    showRegress(new Output({}), report, { commands: new CommandLines('played.db'), failures });
    return written.replace(/^.*agentchart(?= (show|serve))/gm, 'agentchart').split('\n');
  }

  it('a report reads from the counts to what to do next', () => {
    expect(show(mixed, ['1 new call of refund.'])).toEqual([
      '4 recorded runs played',
      '      1  same',
      '      1  same effects, other words',
      '      1  other effects',
      '      1  undecidable',
      '',
      'a run   recorded  candidate  difference         95 % interval',
      'cost     $0.0112    $0.0145     +30.0 %  −727.8 % to +787.9 %',
      'turns        2.0        2.0       0.0 %        0.0 % to 0.0 %',
      'tokens     1,200        900     −25.0 %    −25.0 % to −25.0 %',
      '',
      'note 1 run of 3 stopped at a call that was not recorded: the means are over the others.',
      'refund once  new call in 1 run',
      '',
      `run-c  turn 1  new call      ${NEW_REFUND.detail}, and 1 more`,
      '',
      expect.stringMatching(/agentchart.* show played-3 --db played.db$/),
      expect.stringMatching(
        /agentchart.* serve --db played.db, then \/regressions, or \/compare\/run-c\.\.played-3$/,
      ),
      '',
      'undecidable 1 run: a tool is gone  run-d',
      '',
      '✗ 1 new call of refund.',
      '',
    ]);
  });

  it('text from runs cannot move the cursor, and is cut', () => {
    const text = `\u001b[2J\u202e${'x'.repeat(10_000)}\nrun-z  same`;
    const differences = [{ ...NEW_REFUND, tool: text, detail: text }];
    const undecidable = makeNote('run-b', { sameness: 'undecidable', why: text });
    const lines = show(reportOf([makeNote('run-a', { differences }), undecidable]), [text]);
    for (const char of ['\u001b', '\u202e']) expect(lines.join('\n')).not.toContain(char);
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(500);
    expect(lines).not.toContain('run-z  same');
  });

  it('of runs that differ only as the baseline does, the numbers stand beside', () => {
    const noise = base(makeNote('run-a', { differences: [NEW_REFUND] }));
    const lines = show(
      reportOf([
        makeNote('run-a', { differences: [NEW_REFUND] }),
        noise,
        makeNote('run-b', { differences: [end] }),
      ]),
    );
    expect(lines[3]).toBe('      2  other effects  (baseline 1)');
    const [first, second] = lines.filter(line => line.startsWith('run-'));
    expect(first).toBe('run-b  turn 2  end           the run failed (overloaded)');
    expect(second).toContain('(also in the baseline, noise)');
  });
});
