/** Printed after the list of commands by `agentchart --help`. */
export const HELP = `
Example:
  $ export AGENTCHART_MODEL=openai:gpt-5
  $ agentchart run --agent refund.ts "Refund order A-1001"    # a call needs approval: exits with 3
  $ agentchart show run_1f                                    # state, conversation, open calls
  $ agentchart approve run_1f call_7 --digest 5c…             # approve the call and drive the run
  $ agentchart resume run_1f                                  # resume a run whose process was killed
  $ agentchart serve --agent refund.ts                        # the same in a browser and over HTTP
  $ agentchart mcp --agent refund.ts                          # the agent as a tool of MCP clients

An agent module has an agent as its default export: export default createAgent({ name, instructions, tools }).
Without --agent, run uses an assistant without tools. A run remembers its agent module and model.

Environment:
  AGENTCHART_MODEL    PROVIDER:MODEL, such as openai:gpt-5, or scripted:FILE; overrides the agent's model
  AGENTCHART_TOKEN    the operator's token of serve; required on addresses other than loopback
  AGENTCHART_LOG      json: serve writes its log, and a line per request, as JSON
  AGENTCHART_MCP_KEY  secret that seals the questions of mcp (default: a key beside the SQLite file)
  AGENTCHART_DB       SQLite file that holds the runs (default: .agentchart/runs.db), or postgres://… of a database
  AGENTCHART_DB_LISTEN    postgres://… of the same database without a transaction pooler, for its notifications
  OPENAI_API_KEY      API key; other providers use their usual variables
  OPENAI_BASE_URL     API base URL; other providers likewise
  OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME    headers and service name of traces
  NO_COLOR            disable colors
  AGENTCHART_DEBUG    set to 1 to print stack traces

Exit codes:
  0  success: the run finished, or the command was carried out
  1  the run failed or was cancelled, replay, explore or doctor found a problem, or the store is unusable
  2  usage error: including an unknown run or call, an agent or script that does not load, a missing key
  3  the run waits: for an approval, a result or a resolution, or it is paused
  4  refused: already decided, digest mismatch, expired, run ended, or run still in use
  5  incomplete: explore found no violated invariant, but did not reach every state

Ctrl-C cancels the run and waits for it to end. Press it again to exit at once; the run can be resumed.
`;
