import type { JsonObject } from '../../protocol/json.ts';
import { errorFromBody, type ProviderContext } from '../http/provider-errors.ts';

/** What grpc-js says of a connection that it could not make or that it lost. */
const NO_CONNECTION =
  /no connection established|connection dropped|name resolution failed|RST_STREAM|server shut ?down|goaway|ECONN|EPIPE/i;

/** The names of gRPC's status codes, by their number: https://grpc.io/docs/guides/status-codes/. */
const NAMES = [
  ...['ok', 'cancelled', 'unknown', 'invalid_argument', 'deadline_exceeded', 'not_found', 'already_exists'],
  ...['permission_denied', 'resource_exhausted', 'failed_precondition', 'aborted', 'out_of_range'],
  ...['unimplemented', 'internal', 'unavailable', 'data_loss', 'unauthenticated'],
];

/** Requests that a retry does not change. */
const SAME_AS: Readonly<Record<string, string>> = {
  failed_precondition: 'invalid_argument',
  out_of_range: 'invalid_argument',
  unimplemented: 'not_found',
};

/**
 * Converts an error of grpc-js to one that the adapters classify. Other errors are returned unchanged. A call that
 * the server cancelled is one whose connection was lost.
 */
export function fromGrpcError(thrown: unknown, context: ProviderContext): unknown {
  if (!(thrown instanceof Error) || !('code' in thrown) || typeof thrown.code !== 'number') return thrown;
  const details = 'details' in thrown ? String(thrown.details) : thrown.message;
  const name = NAMES[thrown.code] ?? 'unknown';
  const isLost = (name === 'unavailable' || name === 'internal') && NO_CONNECTION.test(details);
  if (isLost || name === 'cancelled') {
    const systemCode = /\bE[A-Z]{4,}\b/.exec(details)?.[0];
    return Object.assign(new Error(`connection error: ${details}`), systemCode ? { code: systemCode } : {});
  }
  const error: JsonObject = { code: SAME_AS[name] ?? name, message: details };
  return errorFromBody({ error }, context, 'server');
}
