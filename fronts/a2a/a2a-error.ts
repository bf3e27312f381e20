import { omitUndefined } from '../../protocol/json.ts';
import { describeError } from '../../server/error-envelope.ts';

/** The errors of A2A that this server makes: their codes in JSON-RPC and HTTP, and their names in both. */
const FAULTS = {
  'method-unknown': { code: -32601, status: 404, name: 'NOT_FOUND', reason: undefined },
  'invalid-params': { code: -32602, status: 400, name: 'INVALID_ARGUMENT', reason: 'INVALID_PARAMS' },
  internal: { code: -32603, status: 500, name: 'INTERNAL', reason: undefined },
  'task-unknown': { code: -32001, status: 404, name: 'NOT_FOUND', reason: 'TASK_NOT_FOUND' },
  'not-cancelable': { code: -32002, status: 400, name: 'FAILED_PRECONDITION', reason: 'TASK_NOT_CANCELABLE' },
  'no-push': {
    code: -32003,
    status: 400,
    name: 'FAILED_PRECONDITION',
    reason: 'PUSH_NOTIFICATION_NOT_SUPPORTED',
  },
  unsupported: { code: -32004, status: 400, name: 'FAILED_PRECONDITION', reason: 'UNSUPPORTED_OPERATION' },
  'content-type': {
    code: -32005,
    status: 400,
    name: 'INVALID_ARGUMENT',
    reason: 'CONTENT_TYPE_NOT_SUPPORTED',
  },
  'no-extended-card': {
    code: -32007,
    status: 400,
    name: 'FAILED_PRECONDITION',
    reason: 'EXTENDED_AGENT_CARD_NOT_CONFIGURED',
  },
  version: { code: -32009, status: 400, name: 'FAILED_PRECONDITION', reason: 'VERSION_NOT_SUPPORTED' },
} as const;
type Fault = keyof typeof FAULTS;

export class A2aError extends Error {
  override readonly name = 'A2aError';
  readonly fault: Fault;

  constructor(fault: Fault, message: string) {
    super(message);
    this.fault = fault;
  }
}

type DescribedError = {
  code: number;
  status: number;
  name: string;
  message: string;
  details: object[];
};

/** The error for clients. Only our own errors keep their message. */
export function describeA2aError(thrown: unknown): DescribedError {
  const error = thrown instanceof A2aError ? thrown : toA2aError(thrown);
  const { reason, ...described } = FAULTS[error.fault];
  const info = { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'a2a-protocol.org' };
  const own = thrown instanceof A2aError ? undefined : describeError(thrown).status;
  return {
    ...described,
    ...omitUndefined({ status: own }),
    message: error.message,
    details: reason === undefined ? [] : [info],
  };
}

/** An error of the engine or the server as one of A2A: by its HTTP status. */
function toA2aError(thrown: unknown): A2aError {
  const { status, envelope } = describeError(thrown);
  const { code, message } = envelope.error;
  if (code === 'run-unknown' || code === 'run-foreign')
    return new A2aError('task-unknown', 'There is no such task.');
  if (status === 409) return new A2aError('unsupported', message);
  return new A2aError(status < 500 ? 'invalid-params' : 'internal', message);
}
