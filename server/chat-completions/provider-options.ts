import type { JsonObject } from '../../protocol/json.ts';
import { invalid } from '../responses/api-error.ts';
import { samplingOptions } from '../responses/gateway/sampling-options.ts';
import type { ChatBody } from './chat-body.ts';

/**
 * The request's `stop`, `seed` and `logit_bias` as members of the provider's request body. Throws a `ResponsesError` for
 * one that the provider does not have, because ignoring it would change the result.
 */
export function providerOptions(body: ChatBody, provider: string): JsonObject | undefined {
  const { stop, seed, logit_bias } = body;
  const options = samplingOptions({ stop, seed, logit_bias }, provider, name =>
    invalid(name, 'unsupported_parameter', `'${name}' is not supported for this model.`),
  );
  return Object.keys(options).length === 0 ? undefined : options;
}
