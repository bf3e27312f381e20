import { type FromEnvOptions, modelFromEnv, providerNames } from '../../../adapters/model-from-env.ts';
import type { ModelAdapter, SetupChange } from '../../../protocol/adapter.ts';
import { batchIn, piecesOf, streamOf } from '../../../protocol/delta-batches.ts';
import { EngineError, messageOf, ProviderError } from '../../../protocol/error.ts';
import type { Item } from '../../../protocol/item.ts';
import { type JsonObject, omitUndefined, toJson } from '../../../protocol/json.ts';
import type { ModelRequest, ModelTurn, OutputFormat, TurnDelta, Usage } from '../../../protocol/turn.ts';
import { countUsage } from '../../../text/estimate-usage.ts';
import { invalid, missing, ResponsesError } from '../../openai-error.ts';
import { type Clearing, clearContext } from '../request/clear-context.ts';

/** The models that requests may name: aliases or adapters, else `provider:model`. `scripted:` by alias. */
export class GatewayModels {
  readonly #aliases: Readonly<Record<string, string>>;
  readonly #fallback: string | undefined;
  readonly #adapters: Map<string, ModelAdapter>;
  readonly #options: FromEnvOptions;

  /** `fallback` is the value of `AGENTCHART_MODEL`. `adapters`: by the names of models. `options`: of all others. */
  constructor(
    aliases: Readonly<Record<string, string>>,
    fallback: string | undefined,
    adapters: ReadonlyMap<string, ModelAdapter> = new Map(),
    options: FromEnvOptions = {},
  ) {
    this.#options = options;
    const own = [...adapters.keys()].map(name => [name, name]);
    this.#aliases = { ...Object.fromEntries(own), ...aliases };
    this.#fallback = fallback?.trim() || (adapters.size === 1 ? own[0]?.[0] : undefined);
    this.#adapters = new Map(adapters);
  }

  get listed(): string[] {
    const aliases = Object.keys(this.#aliases);
    if (aliases.length > 0 || this.#fallback === undefined) return aliases;
    // The name of a script is a path on this machine. Any name without a provider selects it.
    return [this.#fallback.startsWith('scripted:') ? 'scripted' : this.#fallback];
  }

  providerOf(named: string | undefined): string {
    return this.open(this.resolve(named)).provider;
  }

  /** In tokens; `undefined` if it is not known, also because the model cannot be used at present. */
  contextWindowOf(named: string): number | undefined {
    try {
      return this.open(this.resolve(named)).capabilities.contextWindow;
    } catch (error) {
      if (error instanceof ResponsesError) return undefined;
      throw error;
    }
  }

  resolve(named: string | undefined): string {
    const fallback = this.#fallback;
    if (named === undefined) {
      if (fallback !== undefined) return fallback;
      throw missing('model');
    }
    const alias = Object.hasOwn(this.#aliases, named) ? this.#aliases[named] : undefined;
    if (alias !== undefined) return alias;
    const [, provider = ''] = /^([a-z-]+):./.exec(named) ?? [];
    const aliases = Object.keys(this.#aliases);
    const includesProvider = provider !== 'scripted' && providerNames().includes(provider);
    if (includesProvider && aliases.length === 0) return named;
    if (includesProvider || fallback === undefined || provider === 'scripted') throw unknown(named, aliases);
    const [, ours = ''] = /^([^:]+):/.exec(fallback) ?? [];
    return ours === 'scripted' ? fallback : `${ours}:${named}`;
  }

  open(model: string): ModelAdapter {
    const known = this.#adapters.get(model);
    if (known !== undefined) return known;
    try {
      const adapter = modelFromEnv(model, this.#options);
      this.#adapters.set(model, adapter);
      return adapter;
    } catch (error) {
      if (error instanceof ProviderError || error instanceof EngineError)
        throw invalid('model', 'model_not_found', messageOf(error));
      throw error;
    }
  }
}

type AskedModel = {
  output: OutputFormat | undefined;
  clearings: readonly Clearing[] | undefined;
  record(usage: Usage | null): void;
  /** Called when the provider has begun to answer, maybe more than once. */
  onBegin(): void;
};

/**
 * The model, asked for the output format, which is not validated: the client has the schema. `record` gets what each call
 * used: an estimate where the provider does not say. What the request clears is left out of each call.
 */
export function modelFor(
  adapter: ModelAdapter,
  { output, clearings = [], record, onBegin }: AskedModel,
): ModelAdapter {
  const asked = omitUndefined({ output });
  const prepare = (request: ModelRequest) => clearContext({ ...request, ...asked }, clearings);
  const { append, compact, promptedSchema, capabilities } = adapter;
  const count = (turn: Pick<ModelTurn, 'usage' | 'items'>, request: ModelRequest) =>
    record(countUsage(turn, request, { onUnknownUsage: 'estimate' }));
  const isPrompted = output !== undefined && capabilities.structuredOutput !== 'native';
  return {
    provider: adapter.provider,
    model: adapter.model,
    capabilities,
    ...(append && {
      append: (change: SetupChange, transcript: readonly Item[]) => append.call(adapter, change, transcript),
    }),
    promptedSchema(request) {
      if (promptedSchema) return promptedSchema.call(adapter, { ...request, ...asked });
      return isPrompted ? toJson(output) : undefined;
    },
    async generate(request, options) {
      const { request: sent, appliedEdits } = prepare(request);
      const turn = await adapter.generate(sent, options);
      count(turn, sent);
      return withEdits(turn, appliedEdits);
    },
    stream(request, options) {
      const { request: sent, appliedEdits } = prepare(request);
      const deltas = adapter.stream(sent, { ...options, onBegin });
      const take = (turn: ModelTurn) => {
        count(turn, sent);
        return withEdits(turn, appliedEdits);
      };
      return streamOf(watched(deltas, onBegin, take));
    },
    ...(compact && {
      async compact(request: ModelRequest, options: { signal: AbortSignal }) {
        const made = await compact.call(adapter, request, options);
        count(made, request);
        return made;
      },
    }),
  };
}

function withEdits(turn: ModelTurn, appliedEdits: JsonObject[]): ModelTurn {
  return appliedEdits.length === 0 ? turn : { ...turn, appliedEdits };
}

async function* watched(
  deltas: AsyncIterable<TurnDelta>,
  begin: () => void,
  take: (turn: ModelTurn) => ModelTurn,
): AsyncGenerator<readonly TurnDelta[], void> {
  for await (const piece of piecesOf(deltas)) {
    begin();
    yield batchIn(piece).map(delta =>
      delta.type === 'turn' ? { type: 'turn', turn: take(delta.turn) } : delta,
    );
  }
  begin();
}

function unknown(model: string, aliases: readonly string[]) {
  const advice =
    aliases.length === 0
      ? 'Include the provider, as in openai:gpt-5-mini.'
      : `Its aliases are: ${aliases.join(', ')}.`;
  return invalid('model', 'model_not_found', `This server does not know the model "${model}". ${advice}`);
}
