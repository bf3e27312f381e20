import * as z from 'zod';
import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { describeError } from '../../server/error-envelope.ts';

/* The JSON of A2A 1.0 (https://a2a-protocol.org/v1.0.0/specification/), as far as this server sends and reads it. */

export const A2A_VERSION = '1.0';

export type TaskState =
  | 'TASK_STATE_WORKING'
  | 'TASK_STATE_INPUT_REQUIRED'
  | 'TASK_STATE_COMPLETED'
  | 'TASK_STATE_FAILED'
  | 'TASK_STATE_CANCELED';

export type WirePart =
  | { text: string }
  | { data: JsonValue; mediaType?: string }
  | { url: string; filename?: string; mediaType?: string };

export type Message = {
  messageId: string;
  contextId: string;
  taskId: string;
  role: 'ROLE_USER' | 'ROLE_AGENT';
  parts: WirePart[];
};

/** `timestamp`: ISO 8601. */
export type TaskStatus = { state: TaskState; timestamp: string; message?: Message };
export type Artifact = { artifactId: string; name: string; parts: WirePart[] };
export type Task = {
  id: string;
  contextId: string;
  status: TaskStatus;
  artifacts?: Artifact[];
  history?: Message[];
  metadata: JsonObject;
};

export type WirePlace = { taskId: string; contextId: string };
export type StreamResponse =
  | { task: Task }
  | { statusUpdate: WirePlace & { status: TaskStatus } }
  | { artifactUpdate: WirePlace & { artifact: Artifact; append: boolean; lastChunk: boolean } };

const MOST_PARTS = 1_000;
const id = z.string().max(500);
const text = z.string().max(1_000_000);

const partSchema = z.looseObject({
  text: z.exactOptional(text),
  data: z.exactOptional(z.json()),
  raw: z.exactOptional(z.string()),
  url: z.exactOptional(z.string().max(100_000)),
  filename: z.exactOptional(z.string().max(1_000)),
  mediaType: z.exactOptional(z.string().max(200)),
});
/** A part as a client sent it: exactly one of `text`, `data`, `raw` (Base64) and `url`. */
export type GivenPart = z.infer<typeof partSchema>;

const count = z.coerce.number().int().min(0).max(100_000);

export const sendSchema = z.looseObject({
  message: z.looseObject({
    messageId: z.exactOptional(id),
    taskId: z._default(id, ''),
    contextId: z._default(id, ''),
    parts: z.array(partSchema).min(1).max(MOST_PARTS),
  }),
  configuration: z.exactOptional(
    z.looseObject({
      returnImmediately: z.exactOptional(z.boolean()),
      historyLength: z.exactOptional(count),
      taskPushNotificationConfig: z.exactOptional(z.unknown()),
    }),
  ),
});
export type SendRequest = z.infer<typeof sendSchema>;

export const taskSchema = z.looseObject({ id: id.min(1), historyLength: z.exactOptional(count) });

export const listSchema = z.looseObject({
  contextId: z._default(id, ''),
  status: z.exactOptional(z.string()),
  pageSize: z._default(z.coerce.number().int().min(1).max(100), 50),
  pageToken: z._default(z.string().max(10_000), ''),
  historyLength: z.exactOptional(count),
  statusTimestampAfter: z.exactOptional(z.iso.datetime({ offset: true })),
  includeArtifacts: z.exactOptional(z.union([z.boolean(), z.stringbool()])),
});
export type ListRequest = z.infer<typeof listSchema>;

function fault(code: number, status: number, name: string, reason?: string) {
  return { code, status, name, reason };
}

const FAULTS = {
  'method-unknown': fault(-32601, 404, 'NOT_FOUND'),
  'invalid-params': fault(-32602, 400, 'INVALID_ARGUMENT', 'INVALID_PARAMS'),
  internal: fault(-32603, 500, 'INTERNAL'),
  'task-unknown': fault(-32001, 404, 'NOT_FOUND', 'TASK_NOT_FOUND'),
  'not-cancelable': fault(-32002, 400, 'FAILED_PRECONDITION', 'TASK_NOT_CANCELABLE'),
  'no-push': fault(-32003, 400, 'FAILED_PRECONDITION', 'PUSH_NOTIFICATION_NOT_SUPPORTED'),
  unsupported: fault(-32004, 400, 'FAILED_PRECONDITION', 'UNSUPPORTED_OPERATION'),
  'no-extended-card': fault(-32007, 400, 'FAILED_PRECONDITION', 'EXTENDED_AGENT_CARD_NOT_CONFIGURED'),
  version: fault(-32009, 400, 'FAILED_PRECONDITION', 'VERSION_NOT_SUPPORTED'),
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

/** The error for clients. Only our own errors keep their message. */
export function describeA2aError(thrown: unknown) {
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

function toA2aError(thrown: unknown): A2aError {
  const { status, envelope } = describeError(thrown);
  const { code, message } = envelope.error;
  if (code === 'run-unknown' || code === 'run-foreign')
    return new A2aError('task-unknown', 'There is no such task.');
  if (status === 409) return new A2aError('unsupported', message);
  return new A2aError(status < 500 ? 'invalid-params' : 'internal', message);
}
