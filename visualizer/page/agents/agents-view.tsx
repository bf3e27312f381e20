import { useEffect } from 'preact/hooks';
import type { AgentView, ToolSummary } from '../../../protocol/run-view.ts';
import { nameModels } from '../../describe-event.ts';
import { Explorer, type Play } from '../ahead/explorer.tsx';
import { playExample } from '../app/played.ts';
import { type AgentSummary, request } from '../data/request.ts';
import { useRead } from '../data/server-watch.ts';
import { formatCost, formatCount, formatJson, formatNumber, formatSpan } from '../render/format.ts';
import { Markdown } from '../ui/markdown.tsx';
import { type Fact, Facts, FoldedText, Problem, Safe } from '../ui/text.tsx';

/** The agents that the server drives, or one of them. */
export function AgentsView({ name }: { name: string | null }) {
  return name === null ? <AgentList /> : <OneAgent key={name} name={name} />;
}

function AgentList() {
  const { answer, problem } = useRead(() => request<{ agents: AgentSummary[] }>('/agents'), []);
  useEffect(() => {
    document.title = 'Agents · Agentchart';
  }, []);
  return (
    <main class="agents">
      <h1 tabIndex={-1}>Agents</h1>
      <Problem text={problem} />
      <ul class="cards">
        {answer?.agents.map(({ name, description, version, models, tools }) => (
          <li key={name} class="card">
            <h2>
              <a href={`/agents/${encodeURIComponent(name)}`}>
                <Safe text={name} />
              </a>
            </h2>
            {description === undefined ? null : (
              <p>
                <Safe text={description} />
              </p>
            )}
            <p class="muted">
              <Safe
                text={[
                  nameModels(models) || 'no model',
                  ...(version === undefined ? [] : [`version ${version}`]),
                ].join(' · ')}
              />
              {tools === undefined ? '' : ` · ${formatCount(tools, 'tool')}`}
            </p>
          </li>
        ))}
      </ul>
      {answer?.agents.length === 0 ? (
        <p class="empty">This server has no agents. Start it with: agentchart serve --agent MODULE</p>
      ) : null}
    </main>
  );
}

function OneAgent({ name }: { name: string }) {
  const path = `/agents/${encodeURIComponent(name)}`;
  const { answer: agent, problem } = useRead(() => request<AgentView>(path), [path]);
  useEffect(() => {
    document.title = `${name} · Agentchart`;
  }, [name]);
  return (
    <main class="agent">
      <p>
        <a href="/agents">Agents</a> {' · '}
        <a href={`/runs?agent=${encodeURIComponent(name)}`}>Its runs</a>
      </p>
      <h1 tabIndex={-1}>
        <Safe text={name} />
      </h1>
      <Problem text={problem} />
      {agent === null ? null : <AgentFacts agent={agent} />}
    </main>
  );
}

function AgentFacts({ agent }: { agent: AgentView }) {
  const path = `/agents/${encodeURIComponent(agent.name)}`;
  const play: Play = (events, told) => playExample({ ...told, of: agent.name, past: [], path: events });
  const { description, instructions, tools, sources } = agent;
  return (
    <>
      {description === undefined ? null : (
        <p>
          <Safe text={description} />
        </p>
      )}
      <Facts class="facts" of={listFacts(agent)} />
      <section>
        <h2>Exploration</h2>
        <p class="muted">Walks every path of the agent's runs on the server, and executes nothing.</p>
        <Explorer path={path} maxStates={12_000} label="Explore" onPlay={play} />
      </section>
      <section>
        <h2>Instructions</h2>
        {instructions == null ? (
          <p class="muted">{instructions === null ? 'A function writes them for each run.' : 'None.'}</p>
        ) : (
          <Markdown text={instructions} />
        )}
      </section>
      <section>
        <h2>Tools</h2>
        {tools.length === 0 && sources === 0 ? <p class="muted">None.</p> : null}
        <ul class="cards">
          {tools.map(tool => (
            <ToolCard key={tool.name} tool={tool} />
          ))}
        </ul>
        {sources === 0 ? null : (
          <p class="muted">{`And the tools of ${formatCount(sources, 'tool server')}, known once it is connected.`}</p>
        )}
      </section>
    </>
  );
}

const ANSWERS = {
  live: 'live: streamed while the model writes it',
  held: 'held: shown once the turn is complete',
  separate: 'separate: written in a turn of its own',
} as const;

const LIMITS: Readonly<Record<string, string>> = {
  turns: 'Most turns',
  toolCalls: 'Most tool calls',
  tokens: 'Most tokens',
  cost: 'Highest cost',
  activeMs: 'Longest time at work',
  repeatedFailures: 'Most equal failures',
};

function describeLimit(limit: string, value: unknown): string {
  if (typeof value !== 'number') return String(value);
  if (limit === 'activeMs') return formatSpan(value);
  return limit === 'cost' ? formatCost(value) : formatNumber(value);
}

function listFacts({ forkModels, models, version, limits, ...agent }: AgentView): Fact[] {
  return [
    ['Models', nameModels(models) || 'none'],
    ...(forkModels.length > models.length
      ? [['Models for forks', forkModels.slice(models.length).join(', ')] as const]
      : []),
    ...(version === undefined ? [] : [['Version', version] as const]),
    ...Object.entries(limits).map(
      ([limit, value]): Fact => [LIMITS[limit] ?? limit, describeLimit(limit, value)],
    ),
    ['At a limit', agent.onLimit === 'answer' ? 'one closing answer' : 'stops'],
    ['Final answer', ANSWERS[agent.finalAnswer]],
    ['Tools at once', String(agent.toolConcurrency)],
  ];
}

const EFFECTS = {
  none: 'no side effect',
  idempotent: 'side effect, safe to repeat',
  once: 'side effect, must not run twice',
} as const;
const GATES = {
  always: 'needs approval',
  never: 'no approval',
  depends: 'approval depends on the call',
} as const;
const EXECUTORS = { engine: '', client: 'a client runs it', agent: 'a sub-agent' } as const;

function ToolCard({ tool }: { tool: ToolSummary }) {
  const { name, description, inputSchema, sideEffect, approval, reason, executedBy, server, timeoutMs } =
    tool;
  const facts = [
    EFFECTS[sideEffect],
    GATES[approval],
    ...(EXECUTORS[executedBy] === '' ? [] : [EXECUTORS[executedBy]]),
    ...(tool.reconcilable ? ['can find out the outcome of a call in doubt'] : []),
    ...(tool.retries === 0 ? [] : [formatCount(tool.retries, 'retry', 'retries')]),
    ...(timeoutMs === undefined ? [] : [`times out after ${formatSpan(timeoutMs)}`]),
    ...(server === undefined ? [] : [`from ${server}`]),
  ];
  return (
    <li class={`card effect-${sideEffect}`}>
      <h3>
        <Safe text={name} class="mono" />
      </h3>
      <p>
        <Safe text={description} />
      </p>
      <p class="muted">
        <Safe text={facts.join(' · ')} />
      </p>
      {reason === undefined ? null : (
        <p class="muted">
          <Safe text={`Reason for approval: ${reason}`} />
        </p>
      )}
      <FoldedText summary="Input schema" text={formatJson(inputSchema)} kind="mono" />
    </li>
  );
}
