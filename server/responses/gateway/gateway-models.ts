import { modelFromEnv, providerNames } from '../../../adapters/model-from-env.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { EngineError, messageOf, ProviderError } from '../../../protocol/error.ts';
import type { OutputFormat } from '../../../protocol/turn.ts';
import { invalid } from '../api-error.ts';

/**
 * The models that requests may name: an alias, or, where no alias is configured, `provider:model`; any other
 * name goes to the provider of the default model. Scripts are files of this machine: a request names none that the configuration does not.
 */
export class GatewayModels {
  readonly #aliases: Readonly<Record<string, string>>;
  readonly #fallback: string | undefined;
  readonly #adapters = new Map<string, ModelAdapter>();

  /** `fallback` is `AGENTCHART_MODEL`. */
  constructor(aliases: Readonly<Record<string, string>>, fallback: string | undefined) {
    this.#aliases = aliases;
    this.#fallback = fallback?.trim() || undefined;
  }

  /** The model string a request's `model` comes to. Throws a `ResponsesError` when it comes to none. */
  resolve(named: string | null | undefined): string {
    const fallback = this.#fallback;
    if (named == null) {
      if (fallback !== undefined) return fallback;
      throw invalid('model', 'missing_required_parameter', "Missing required parameter: 'model'.");
    }
    const alias = Object.hasOwn(this.#aliases, named) ? this.#aliases[named] : undefined;
    if (alias !== undefined) return alias;
    const [, provider = ''] = /^([a-z-]+):./.exec(named) ?? [];
    const isNamed = provider !== 'scripted' && providerNames().includes(provider);
    if (isNamed && Object.keys(this.#aliases).length === 0) return named;
    if (isNamed) throw unknown(named, Object.keys(this.#aliases));
    if (fallback === undefined || provider === 'scripted') throw unknown(named, Object.keys(this.#aliases));
    const [, ours = ''] = /^([^:]+):/.exec(fallback) ?? [];
    return ours === 'scripted' ? fallback : `${ours}:${named}`;
  }

  /** One adapter for each model string. Throws a `ResponsesError` for one that cannot be made. */
  open(model: string): ModelAdapter {
    const known = this.#adapters.get(model);
    if (known !== undefined) return known;
    try {
      const adapter = modelFromEnv(model);
      this.#adapters.set(model, adapter);
      return adapter;
    } catch (error) {
      if (error instanceof ProviderError || error instanceof EngineError)
        throw invalid('model', 'model_not_found', messageOf(error));
      throw error;
    }
  }
}

/** The adapter, told what form its answers have. They are not checked here: the client has the schema. */
export function withOutput(adapter: ModelAdapter, output: OutputFormat | undefined): ModelAdapter {
  if (output === undefined) return adapter;
  return {
    provider: adapter.provider,
    model: adapter.model,
    capabilities: adapter.capabilities,
    generate: (request, options) => adapter.generate({ ...request, output }, options),
    stream: (request, options) => adapter.stream({ ...request, output }, options),
  };
}

function unknown(model: string, aliases: readonly string[]) {
  const advice =
    aliases.length === 0
      ? 'Name a provider too, such as openai:gpt-5-mini.'
      : `It serves ${aliases.join(', ')}.`;
  return invalid('model', 'model_not_found', `The model "${model}" is not known to this server. ${advice}`);
}
