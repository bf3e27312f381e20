import type { AnswerErrorCode, EngineErrorCode, ProviderErrorCode } from '../../../protocol/error.ts';
import type { ApiErrorCode } from '../../../server/error-envelope.ts';

/** Why an error usually comes, and what to do about it; `see`: the page of docs/ that has more. */
type Advice = { causes: string; todo: string; see: string };

/** What `ENGINE_ERRORS` says of other codes. */
type Meant = Advice & { meaning: string };

/** The codes with which a server refuses a request before it comes to a run, or that hide what failed. */
export type ServerErrorCode = Exclude<ApiErrorCode, EngineErrorCode>;

type Table = Readonly<
  Record<EngineErrorCode | Exclude<ProviderErrorCode, ServerErrorCode>, Advice> &
    Record<ServerErrorCode | AnswerErrorCode, Meant>
>;

/** What the pages of docs/errors/ say about each code, besides the meaning that `ENGINE_ERRORS` has. */
export const ERROR_ADVICE: Table = {
  'agent-invalid': {
    causes:
      'An option of `createAgent`, `tool` or another function of the package is misspelt, missing or does not fit the others.',
    todo: 'Read the message: it names the option, and the one that was probably meant. Correct it; nothing has run.',
    see: 'guide/errors.md#misspelt-options',
  },
  'agent-module-invalid': {
    causes:
      'The file of `--agent` does not exist, throws while it loads, has no agent as its default export, or two modules have agents of one name.',
    todo: 'End the module with `export default createAgent({ … })`. `AGENTCHART_DEBUG=1` prints the stack of what it threw. Modules in TypeScript need Node 22.18 or later.',
    see: 'guide/start.md',
  },
  'input-invalid': {
    causes:
      'An option of a command, a field of a request or an input does not have the type or format that is expected.',
    todo: 'Read the message: it names the value, what was expected and what came. The help of the command, or `/openapi.json` of the server, has all of them.',
    see: 'guide/errors.md',
  },
  'run-unknown': {
    causes: 'The id is wrong or incomplete, the run was deleted, or the process uses another store.',
    todo: 'List the runs of the store with `agentchart runs`, or `agent.store.list()` in code, and compare `--db` and `AGENTCHART_DB`.',
    see: 'runs.md',
  },
  'run-exists': {
    causes:
      'A run was started or restored with an id that is taken, or was migrated before; the message has the id of the successor.',
    todo: 'Open the run that exists, or give another id. If the first request timed out, it has probably succeeded.',
    see: 'runs.md',
  },
  'run-foreign': {
    causes: 'The run was started by an agent with another name, or with labels other than the given ones.',
    todo: 'Open it with the agent that the message names, or with an agent that has it as a sub-agent. Leave the labels out, or give those that it was started with.',
    see: 'runs.md',
  },
  'run-ended': {
    causes: 'The run finished, failed or was cancelled before the command came.',
    todo: "Start a run that continues it: `agentchart run --continues RUN`, or `agent.start(input, { continues: 'RUN' })`.",
    see: 'guide/conversations.md',
  },
  'call-unknown': {
    causes: 'The id of the call is wrong, or belongs to another run.',
    todo: 'List the open calls of the run with `agentchart show RUN`. A call of a sub-agent belongs to the run of the sub-agent.',
    see: 'guide/approvals.md',
  },
  'call-not-open': {
    causes:
      'The call runs, has ended, or waits for something else: an approval was sent where a resolution or a result is needed, or the reverse.',
    todo: 'Look at what the run waits for with `agentchart show RUN`, and send that. The message says in which state the call is.',
    see: 'guide/approvals.md',
  },
  'already-decided': {
    causes: 'Another decision came first, or the same one was sent twice.',
    todo: 'Nothing: the first decision counts. `by` says who made it.',
    see: 'guide/approvals.md',
  },
  'not-allowed': {
    causes:
      'The call names groups that may decide it, and the person is in none; or the person started the run or has already decided, and another one is needed.',
    todo: 'Let a person decide who may: the message says who. Groups come from the token, from the app, or from `--group`. If it is not known who started the run, no one may decide: start another with `by`, a token, or `authorize`.',
    see: 'guide/approvals.md',
  },
  'wrong-digest': {
    causes: 'The input of the call, or the question or answer, changed after the person saw it.',
    todo: 'Show it again and decide on what it says now. Do not send the decision again with the new digest unseen.',
    see: 'guide/approvals.md',
  },
  expired: {
    causes: 'The approval, question or review had a time limit, and the decision came after it.',
    todo: 'Nothing for this call: it was rejected when its time was over, and a question took its fallback. Give approvals more time if people regularly come too late.',
    see: 'guide/approvals.md',
  },
  'already-happened': {
    causes: 'A retry was asked for, but the attempt that the run had given up has succeeded in the meantime.',
    todo: 'Record that it happened, with its output. To repeat the action anyway, force the retry: it then happens twice.',
    see: 'guarantees.md',
  },
  'attempt-alive': {
    causes:
      'A retry was asked for while the process of an earlier attempt may still be running, such as after a timeout that the tool ignored.',
    todo: 'End that process or wait for it, then retry. Forcing the retry may perform the action twice.',
    see: 'guarantees.md',
  },
  'inbox-full': {
    causes: 'Messages were sent to a run that does not read them, because it waits for a person.',
    todo: 'Decide what it waits for. Send the message again after the run has read the others.',
    see: 'guide/conversations.md',
  },
  'request-reused': {
    causes:
      'A client made a request with the id of an earlier one, but with other content. The message names the fields that differ.',
    todo: 'Repeat a request with exactly its content, and give each new request a new id.',
    see: 'runs-api.md',
  },
  refused: {
    causes:
      'The command does not fit the state of the run: it edits a call that has started, steps a run that is not paused, or begins a second open run in a thread.',
    todo: 'Read the message, look at the run with `agentchart show RUN`, and send a command that fits.',
    see: 'guide/debugging.md',
  },
  'result-missing': {
    causes: 'The run was copied from another store without its large results, or the result was deleted.',
    todo: 'Read it in the store where the run began. The transcript still has its head and tail.',
    see: 'journals.md',
  },
  'chart-mismatch': {
    causes: 'The run was written by an older or newer release of the package.',
    todo: 'Open it with the release that wrote it, or migrate it: `agentchart doctor` lists such runs, `agentchart migrate RUN` makes a successor.',
    see: 'versions.md',
  },
  'state-unknown': {
    causes: 'A stored snapshot comes from another version of the chart, or was changed by hand.',
    todo: 'Use the release that wrote it, or restore an unchanged copy.',
    see: 'versions.md',
  },
  'journal-damaged': {
    causes:
      'An entry is missing or was changed outside of the package: by a disk, a restore or an edit of the database.',
    todo: 'Restore the store from a backup. The message names the entry; nothing of the run is used in part.',
    see: 'journals.md',
  },
  'snapshot-outdated': {
    causes: 'A snapshot is restored into a store where the run has already come further.',
    todo: 'Open the run instead: `agent.open(id)`.',
    see: 'embedding.md',
  },
  'lease-held': {
    causes: 'The run is open elsewhere: in a server, a worker or a terminal.',
    todo: 'Follow the run instead, or wait until it rests. If its process is gone, the lease ends within 10 seconds.',
    see: 'workers.md',
  },
  'lease-lost': {
    causes: 'The process was stopped, overloaded or cut off from the store for longer than its lease.',
    todo: 'Open the run again. What the other process did is in the journal; nothing is lost.',
    see: 'workers.md',
  },
  'store-unavailable': {
    causes:
      'The file or its folder cannot be read or written, the database does not answer, or its tables belong to another release.',
    todo: 'Check the path or the address, the rights and, for PostgreSQL, the database and its user. Runs continue once the store is back.',
    see: 'guide/production.md',
  },
  'store-locked': {
    causes: 'Another process holds a lock on the file, such as a backup or a tool for databases.',
    todo: 'Try again, or end the process that holds the lock.',
    see: 'guide/production.md',
  },
  'store-full': {
    causes: 'The disk has no space left, or a quota is reached.',
    todo: 'Free space, then resume the runs. No acknowledged write is lost. `agentchart prune` deletes old runs.',
    see: 'guide/production.md',
  },
  'store-damaged': {
    causes: 'The file is not a SQLite database, was cut off, or its content does not match its checksums.',
    todo: 'Restore it from a backup, together with its `-wal` file. Make backups with `agentchart backup`, not by copying an open file.',
    see: 'journals.md',
  },
  'store-reply-lost': {
    causes: 'The connection or the disk failed during a commit.',
    todo: 'Read the run again: it shows whether the last write is there. Repeat the request with the same request id.',
    see: 'guarantees.md',
  },
  'store-replaced': {
    causes: 'The file was deleted, moved or restored while a process had it open.',
    todo: 'Put the file back, or restart the process so that it uses the current one. Stop processes before a restore.',
    see: 'guide/production.md',
  },
  'model-missing': {
    causes: 'The agent has no `model`, and `AGENTCHART_MODEL` is not set.',
    todo: 'Set `AGENTCHART_MODEL` to PROVIDER:MODEL, such as `openai:gpt-5-mini`, or give the agent a `model`.',
    see: 'models.md',
  },
  'model-unknown': {
    causes: 'The part before the colon of a model string is not a provider of this package.',
    todo: 'Use a provider of the list. One that speaks OpenAI’s API works as `openai-chat:MODEL` with `OPENAI_BASE_URL`.',
    see: 'models.md',
  },
  'key-missing': {
    causes: 'The variable of the provider’s API key is not set in this process.',
    todo: 'Set the variable that the message names. Nothing was sent.',
    see: 'models.md',
  },
  'base-url-invalid': {
    causes: 'A base URL lacks its `https://`, or is missing for a provider that has none of its own.',
    todo: 'Correct the variable or option that the message names. Nothing was sent.',
    see: 'models.md',
  },
  'script-invalid': {
    causes: 'The file of `scripted:FILE` is not JSON, or a turn in it has another form.',
    todo: 'Compare it with the form in the message.',
    see: 'guide/testing.md',
  },
  'tool-source-failed': {
    causes: 'An MCP server did not start, did not answer, or lists tools that cannot be used.',
    todo: 'Start its command by hand: the message has the command and what it printed. For a URL, check the address and the token.',
    see: 'guide/tools.md',
  },
  'sign-in-needed': {
    causes: 'An MCP server asks for OAuth, and no one has signed in, or the sign-in has ended.',
    todo: 'Run `agentchart mcp login SERVER --agent MODULE`. A run that waits for it continues then.',
    see: 'guide/tools.md',
  },
  'sign-in-failed': {
    causes: 'The sign-in was refused or cancelled, came too late, or its answer belongs to another one.',
    todo: 'Begin another sign-in with `agentchart mcp login SERVER --agent MODULE`.',
    see: 'guide/tools.md',
  },
  authentication: {
    causes: 'The API key is wrong, was revoked, or belongs to another provider or region.',
    todo: 'Set a valid key. The call is not retried.',
    see: 'models.md',
  },
  permission: {
    causes: 'The key may not use this model or this feature.',
    todo: 'Choose another model, or ask for access at the provider.',
    see: 'models.md',
  },
  'invalid-request': {
    causes: 'The provider does not accept a parameter, a schema or a content of the request.',
    todo: 'Read the provider’s message, and `raw` of the error. Often a setting does not exist for this model.',
    see: 'models.md',
  },
  'context-too-long': {
    causes: 'The transcript is larger than the model’s context.',
    todo: 'Let the agent compact its transcript, trim it with `prepareTurn`, or let tools return less.',
    see: 'guide/conversations.md',
  },
  'content-filter': {
    causes: 'The provider refused the request or the reply for its content.',
    todo: 'Change the input, or choose another model.',
    see: 'models.md',
  },
  'rate-limit': {
    causes: 'There were too many requests or tokens in a minute.',
    todo: 'Nothing at first: the call is retried when the provider says. If the run fails, drive fewer runs at once or raise the limit at the provider.',
    see: 'models.md',
  },
  quota: {
    causes: 'The budget of the account is spent.',
    todo: 'Raise it at the provider, or use another key or model. The call is not retried.',
    see: 'models.md',
  },
  overloaded: {
    causes: 'The provider has too much load.',
    todo: 'Nothing at first: the call is retried. A list of models lets a run fall back on the next one.',
    see: 'models.md',
  },
  server: {
    causes: 'The provider failed on the request.',
    todo: 'Nothing at first: the call is retried. If it persists, look at the provider’s status page.',
    see: 'models.md',
  },
  timeout: {
    causes: 'The provider did not answer in time.',
    todo: 'Nothing at first: the call is retried. For slow models, raise the time limit of the adapter.',
    see: 'models.md',
  },
  network: {
    causes: 'There was no connection to the provider, or it broke.',
    todo: 'Nothing at first: the call is retried. Check the base URL, DNS and the proxy.',
    see: 'models.md',
  },
  'redirect-refused': {
    causes: 'The base URL answers with a redirect, which would send the key to another address.',
    todo: 'Set the base URL to the address that answers itself.',
    see: 'decisions/0009-no-redirects.md',
  },
  'malformed-stream': {
    causes:
      'The stream ended early, or what arrived is not the format of the provider; often a proxy changed it.',
    todo: 'Nothing at first: the call is retried. If it persists, try without the proxy.',
    see: 'models.md',
  },
  'response-too-large': {
    causes: 'The reply is larger than the limit for replies of providers.',
    todo: 'Ask for less, such as with a lower limit of output tokens.',
    see: 'limits.md',
  },
  aborted: {
    causes: 'The caller aborted the call: the run was paused or cancelled, or its process stopped.',
    todo: 'Nothing. An interrupted call is made again when the run continues.',
    see: 'guarantees.md',
  },
  'script-exhausted': {
    causes: 'The run called the scripted model more often than the script has turns.',
    todo: 'Add a turn to the script, or find out why the run takes another one.',
    see: 'guide/testing.md',
  },
  unknown: {
    causes: 'The provider answered with an error that the adapter does not know.',
    todo: 'Read `raw` of the error: it is the body of the reply.',
    see: 'models.md',
  },
  'output-invalid': {
    meaning: 'the answer did not follow the `output` schema of the agent, and neither did the repaired ones',
    causes:
      'The schema asks for more than the model can keep to, such as a pattern or a refinement that the provider does not see, or the model is too small for it.',
    todo: 'Read the faults in the conversation, with `agentchart show RUN`. Say in the descriptions of the schema what is expected, or allow more.',
    see: 'guide/input-and-output.md',
  },
  'answer-blocked': {
    meaning: 'guardrails or reviewers did not let an answer pass; the message has the last reason',
    causes:
      'A guardrail of `answer` blocked one answer after another, or a review was sent back or expired when the run had no turn left.',
    todo: 'Read the reasons in the conversation, with `agentchart show RUN`: the model reads the same ones, so they have to say what would pass.',
    see: 'guide/input-and-output.md#guardrails',
  },
  unauthorized: {
    meaning: 'the request has no valid credentials',
    causes:
      'The request has no token, or one that the server does not know; in your own server, `authorize` returned `null`.',
    todo: 'Send the token: `authorization: Bearer TOKEN`. The server has it from `AGENTCHART_TOKEN` or its configuration; your own server, from what `authorize` reads.',
    see: 'server.md#tokens',
  },
  forbidden: {
    meaning: 'the caller may not do this',
    causes:
      'The role of the caller does not allow it, such as a requester who approves; the caller’s labels, models or budget exclude it; or a page of another origin sent the request, or it names another host.',
    todo: 'Read the message: it names the role, or what else is missing. Send the request with a token that may, or give the person another `role` in `authorize`. Send requests from the server’s own address, or name the page’s origin in the configuration (`cors`).',
    see: 'server.md#tokens',
  },
  'not-found': {
    meaning: 'the path does not exist; from a provider: the model does not',
    causes:
      'Over HTTP, the path of the request is wrong, or the server was started without what it is for. From a provider, it does not have this model, or the base URL has another path.',
    todo: 'Compare the path with `/openapi.json` of the server. In a failed run, check the name of the model and the base URL.',
    see: 'server.md',
  },
  'method-not-allowed': {
    meaning: 'the path takes other methods',
    causes: 'A GET was sent where a POST is needed, or the reverse.',
    todo: 'Use a method that the message names.',
    see: 'server.md',
  },
  'agent-unknown': {
    meaning: 'the server has no agent of this name',
    causes: 'The name is misspelt, or the server was started without this agent.',
    todo: 'List the agents with `GET /agents`; restart the server with `--agent` and the module of the missing one.',
    see: 'server.md',
  },
  'agent-unavailable': {
    meaning: 'the server does not have the agent of the run, so the run cannot continue there',
    causes: 'The run was started elsewhere, or the server was restarted without its agent.',
    todo: 'Restart the server with `--agent` and the module of the agent, or use the command line. Reading, pausing and cancelling work without it.',
    see: 'server.md',
  },
  'too-large': {
    meaning: 'the request, or what it asks for, is larger than the server allows',
    causes: 'The body has too many bytes, or a run has too many entries to be shared as a page.',
    todo: 'Send less; for `/v1`, `body_bytes` of the configuration is the limit. Export large runs with `agentchart export`.',
    see: 'server.md#limits',
  },
  'too-many-attempts': {
    meaning: 'too many sign-ins have failed',
    causes:
      'After five wrong sign-ins on the page, the server tries one a second, from all clients together.',
    todo: 'Wait as long as `retry-after` says, then sign in with the right token. Requests with a bearer token are not slowed.',
    see: 'server.md#tokens',
  },
  'rate-limit-exceeded': {
    meaning: 'the caller or the server has reached a limit',
    causes:
      'A limit of the token is spent (requests, tokens, cost), or too many streams or explorations are open.',
    todo: 'Wait as long as `retry-after` says, or raise the limit in the configuration.',
    see: 'server.md#limits',
  },
  'request-aborted': {
    meaning: 'the connection ended before the request was complete, or before its answer',
    causes: 'The client went away, or a proxy in between has a shorter time limit.',
    todo: 'Send it again, with the same request id or `Idempotency-Key` if it starts something.',
    see: 'server.md#how-long-a-request-lives',
  },
  'unsupported-media-type': {
    meaning: 'the body is not of a type that the path takes',
    causes: 'The header `content-type` names another type, or the body is compressed.',
    todo: 'Send JSON with `content-type: application/json`, uncompressed.',
    see: 'server.md',
  },
  'shutting-down': {
    meaning: 'the server is stopping',
    causes: 'It was restarted or replaced. Runs that it drove are handed over.',
    todo: 'Send the request again: the next process answers it. A stream continues after the last entry that came.',
    see: 'server.md#health',
  },
  internal: {
    meaning: 'the server failed on the request, and its log has the cause',
    causes:
      'A function of your application threw, such as `authorize`, or answered what it may not; or the server has a defect.',
    todo: 'Look for the id of the request (`x-request-id`) in the log of the server: the error stands there, with its stack. Clients are told nothing of it, and other requests are not affected.',
    see: 'server.md#logs',
  },
};
