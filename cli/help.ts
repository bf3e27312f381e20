/** What the top-level help says after the list of commands. */
export const HELP = `
A session:
  $ export AGENTCHART_MODEL=openai:gpt-5
  $ agentchart run --agent refund.ts "Refund order A-1001"    rests when a call needs approval, exit code 3
  $ agentchart show run_1f                                    what it waits for, and why
  $ agentchart approve run_1f call_7 --digest 5c…             goes on, in this process
  $ agentchart resume run_1f                                  goes on with a run whose process was killed
  $ agentchart serve --agent refund.ts                        all of it in a browser, and over HTTP

An agent module exports an agent: export default createAgent({ name, instructions, tools }).
Without --agent, run uses a plain assistant without tools. Later commands remember agent and model.

Environment:
  AGENTCHART_MODEL    provider:model, such as openai:gpt-5, or scripted:FILE; goes before the agent's own model
  AGENTCHART_TOKEN    what serve asks its clients for; needed to listen on other addresses than loopback
  AGENTCHART_DB       where runs are kept (default .agentchart/runs.db)
  OPENAI_API_KEY      and the other providers' usual key variables; OPENAI_BASE_URL for another address
  NO_COLOR            no colours
  AGENTCHART_DEBUG    1 adds a stack to errors

Exit codes:
  0  finished (reading commands, pause and cancel: done)
  1  failed or cancelled, a replay that is not equal, an explored agent that
     breaks what it must keep, or the store cannot be used
  2  bad usage: also an unknown run or call, an agent or scripted file that does not load, a missing key
  3  waiting: for an approval, a result, a word on a call in doubt, or paused
  4  refused: decided already, another digest, expired, ended; a run to delete or
     redact that is driven or still needed

Ctrl-C cancels the run and waits for it to end. A second one leaves at once; the run can be resumed.
`;
