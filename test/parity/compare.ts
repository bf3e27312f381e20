import { messageOf } from '../../protocol/error.ts';
import { isJsonObject } from '../../protocol/json.ts';
import { type Scenario, scenarios } from './scenarios.ts';
import { ASPECTS, type Aspect, shapeOf } from './shape.ts';
import { type Exchange, Side, type Target } from './side.ts';

/** A difference in one aspect of one step. `name` is stable, as `mcp/streamed/first/events`. */
export type Difference = { name: string; ours: readonly string[]; theirs: readonly string[] };

export type ComparisonOptions = {
  ours: Target;
  theirs: Target;
  /** An MCP server with the tool `echo` that both can reach; without one, those scenarios are left out. */
  mcpUrl?: string;
  /** Names of scenarios; default: all. */
  only?: readonly string[];
  /** Names, or beginnings of names up to a slash, of differences that are accepted. */
  except?: readonly string[];
  onScenario?(name: string, differences: readonly Difference[]): void;
};

export type Comparison = {
  scenarios: number;
  skipped: string[];
  differences: Difference[];
  accepted: string[];
};

/** Puts both servers through the scenarios, with and without streaming. */
export async function compareServers(options: ComparisonOptions): Promise<Comparison> {
  const { ours, theirs, mcpUrl, only, except = [], onScenario } = options;
  const result: Comparison = { scenarios: 0, skipped: [], differences: [], accepted: [] };
  for (const scenario of scenarios) {
    if (only !== undefined && !only.includes(scenario.name)) continue;
    if (scenario.needsMcp === true && mcpUrl === undefined) {
      result.skipped.push(scenario.name);
      continue;
    }
    for (const streams of scenario.once === true ? [false] : [false, true]) {
      const name = streams ? `${scenario.name}/streamed` : scenario.name;
      const [one, other] = await Promise.all(
        [ours, theirs].map(target =>
          play(scenario, new Side(target, { streams }), mcpUrl ?? 'http://127.0.0.1:9/mcp'),
        ),
      );
      const found = compareExchanges(name, { ours: one ?? [], theirs: other ?? [] }, scenario.refusals ?? []);
      const isAccepted = ({ name: full }: Difference) =>
        except.some(prefix => full === prefix || full.startsWith(`${prefix}/`));
      const differences = found.filter(difference => !isAccepted(difference));
      result.scenarios += 1;
      result.differences.push(...differences);
      result.accepted.push(...found.filter(isAccepted).map(difference => difference.name));
      onScenario?.(name, differences);
    }
  }
  return result;
}

/** Plays the scenario. A server that cannot be reached ends it with a step of its own. */
async function play(scenario: Scenario, side: Side, mcpUrl: string): Promise<Exchange[]> {
  try {
    await scenario.play(side, { mcpUrl });
    return side.exchanges;
  } catch (error) {
    return [...side.exchanges, { step: 'broken', status: 0, body: messageOf(error), events: [] }];
  }
}

function compareExchanges(
  name: string,
  { ours, theirs }: { ours: readonly Exchange[]; theirs: readonly Exchange[] },
  refusals: 'all' | readonly string[],
): Difference[] {
  const steps = [...new Set([...ours, ...theirs].map(({ step }) => step))];
  return steps.flatMap((step): Difference[] => {
    const [one, other] = [ours, theirs].map(side => side.find(exchange => exchange.step === step));
    const full = `${name}/${step}`;
    if (one === undefined || other === undefined)
      return [{ name: full, ours: describe(one), theirs: describe(other) }];
    const mustSucceed = refusals !== 'all' && !refusals.includes(step);
    if (mustSucceed && (hasFailed(one) || hasFailed(other)))
      return [{ name: `${full}/failed`, ours: describe(one), theirs: describe(other) }];
    const shapes = { ours: shapeOf(one), theirs: shapeOf(other) };
    if (one.status !== other.status) {
      const [ours, theirs] = [shapes.ours, shapes.theirs].map(({ status, error }) => [...status, ...error]);
      return [{ name: `${full}/status`, ours: ours ?? [], theirs: theirs ?? [] }];
    }
    return ASPECTS.filter(aspect => differs(shapes, aspect)).map(aspect => ({
      name: `${full}/${aspect}`,
      ours: shapes.ours[aspect],
      theirs: shapes.theirs[aspect],
    }));
  });
}

/** Two servers that fail alike are not equal: nothing was compared. */
function hasFailed({ status, body }: Exchange): boolean {
  return status >= 400 || (isJsonObject(body) && body.status === 'failed');
}

function describe(exchange: Exchange | undefined): string[] {
  return exchange === undefined ? ['not reached'] : [`${exchange.status} ${JSON.stringify(exchange.body)}`];
}

type Shapes = { ours: ReturnType<typeof shapeOf>; theirs: ReturnType<typeof shapeOf> };

function differs({ ours, theirs }: Shapes, aspect: Aspect): boolean {
  return ours[aspect].join('\n') !== theirs[aspect].join('\n');
}
