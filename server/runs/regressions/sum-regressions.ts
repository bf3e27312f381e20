import type { Context } from 'hono';
import * as z from 'zod';
import { omitUndefined } from '../../../protocol/json.ts';
import { parseLabels } from '../../../protocol/listing/label.ts';
import { listFigures, sayFigure } from '../../../regress/describe-report.ts';
import { samenessSchema } from '../../../regress/played-note.ts';
import { type FoundDifference, REGRESS } from '../../../regress/played-run.ts';
import type { RegressionSums } from '../../../regress/regression.ts';
import { nameDifferences, ReportAdder } from '../../../regress/report-sums.ts';
import { withLabelsOf } from '../../access/authorize.ts';
import { fields, optional } from '../../fields.ts';
import type { RunsEnv } from '../../runs-env.ts';
import type { Played, Regressions } from './read-regressions.ts';

const PAGE = 200;
const MOST_PAGES = 50;

export const sumsQuery = fields({
  label: optional(z.array(z.string()), 'NAME=VALUE; repeatable. The played runs have all of these labels.'),
  sameness: optional(z.string(), 'The figures are of recorded runs whose worst sample compares like this.'),
  kind: optional(z.string(), 'They are of samples with a difference of this kind.'),
  tool: optional(z.string(), 'They are of samples with a difference at calls of this tool.'),
});

const figureSchema = z.object({
  recorded: z.number(),
  candidate: z.number(),
  runs: z.number().int().meta({ description: 'How many recorded runs it is the mean of.' }),
  difference: z.number(),
  interval: z
    .nullable(z.object({ low: z.number(), high: z.number() }))
    .meta({ description: 'The 95 % interval of the mean difference; null for less than two runs.' }),
});

export const sumsSchema = z.object({
  runs: z.number().int().meta({ description: 'How many recorded runs match.' }),
  paired: z
    .object({
      cost: figureSchema,
      turns: figureSchema,
      tokens: figureSchema,
      score: z.exactOptional(figureSchema),
    })
    .meta({ description: 'Means per run, of samples that ended by themselves.' }),
  says: z.array(z.string()).meta({ description: 'These figures in words.' }),
  baseline: z.exactOptional(
    z.object({
      runs: z.number().int(),
      differing: z.number().int().meta({ description: 'Those with a difference of this kind and tool.' }),
    }),
  ),
  played: z
    .array(
      z.object({
        candidate: z.string().meta({ description: 'The played run.' }),
        worst: samenessSchema.meta({ description: 'How the worst sample of its recorded run compares.' }),
        noise: z
          .array(z.number().int())
          .meta({ description: 'The places of its differences that the baseline shows as often, from 0.' }),
      }),
    )
    .meta({ description: 'All runs that the candidate played, with or without a filter.' }),
}) satisfies z.ZodType<RegressionSums>;

type Filter = Omit<z.output<typeof sumsQuery>, 'label'>;

/** Adds up the newest runs of each side, 10,000 at most. */
export async function sumRegressions(
  c: Context<RunsEnv>,
  { label = [], ...filter }: z.output<typeof sumsQuery>,
  regressions: Regressions,
): Promise<Response> {
  const given = parseLabels(label);
  const read = async (side: string): Promise<Played[]> => {
    const labels = withLabelsOf(c.get('caller'), { ...given, [REGRESS]: side });
    const found: Played[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < MOST_PAGES; page += 1) {
      const { played, next } = await regressions.list({
        limit: PAGE,
        labels,
        ...omitUndefined({ cursor }),
      });
      found.push(...played);
      if (next === undefined) break;
      cursor = next;
    }
    return found;
  };
  return c.json(addUp(await read('candidate'), await read('baseline'), filter));
}

function addUp(played: readonly Played[], baseline: readonly Played[], filter: Filter): RegressionSums {
  const all = reportOf([...played, ...baseline]);
  const worst = new Map(all.played.map(({ runId, sameness }) => [runId, sameness]));
  const noise = new Map<string, Set<string>>();
  for (const [runId, found] of Map.groupBy(all.differences, one => one.runId)) {
    const names = nameDifferences(found).flatMap(([name, one]) => (one.noise ? [name] : []));
    noise.set(runId, new Set(names));
  }
  const { sameness, kind, tool } = filter;
  const matches = (one: FoundDifference): boolean =>
    (kind === undefined || one.kind === kind) && (tool === undefined || one.tool === tool);
  const matching = played.filter(
    ({ note }) =>
      (sameness === undefined || worst.get(note.of) === sameness) &&
      ((kind ?? tool) === undefined || note.differences.some(matches)),
  );
  const { runs, paired } = reportOf(matching);
  const differing = all.baseline?.differences.filter(matches).map(({ runId }) => runId);
  return {
    runs,
    paired,
    says: listFigures(paired).map(sayFigure),
    ...(all.baseline && {
      baseline: { runs: all.baseline.runs, differing: new Set(differing).size },
    }),
    played: played.map(({ record, note: { of, differences } }) => ({
      candidate: record.runId,
      worst: worst.get(of) ?? 'undecidable',
      noise: nameDifferences(differences).flatMap(([name], place) =>
        noise.get(of)?.has(name) === true ? [place] : [],
      ),
    })),
  };
}

function reportOf(played: readonly Played[]) {
  const adder = new ReportAdder();
  for (const { record, note } of played) adder.add(record.runId, note);
  return adder.report({ complete: true });
}
