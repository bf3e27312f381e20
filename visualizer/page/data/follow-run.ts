import { batch } from '@preact/signals';
import { restore } from '../../../machines/snapshot.ts';
import { Folded } from '../model/journal-fold.ts';
import type { RunModel } from '../model/run-model.ts';
import { RequestError } from './request.ts';
import type { PageSource, RunNews } from './source.ts';

const RECONNECT_MS = 1_000;
const LOOK_MS = 60;
const LOOK_EVERY_MS = 400;
const POLL_MS = 5_000;
const GATHER_MS = 60;
const PAGE = 2_000;

/** `look` schedules a read of the run's view; `end` stops following. */
export type Following = { look(): void; end(): void };

/** Fills a model: with the end of the journal, the earlier entries, then the stream. `onMissing`: there is no such run. */
export function followShownRun(source: PageSource, model: RunModel, onMissing: () => void): Following {
  const { runId } = model;
  let isOver = false;
  let soon: ReturnType<typeof setTimeout> | undefined;
  let looking: Promise<void> | null = null;
  let looked = 0;
  const gathered: Extract<RunNews, { type: 'journal' | 'delta' }>[] = [];
  let drawing: ReturnType<typeof setTimeout> | undefined;
  let unfollow = (): void => {};

  const readView = async (): Promise<void> => {
    try {
      model.takeView(await source.view(runId));
    } catch (error) {
      if (error instanceof RequestError && error.status === 404 && !isOver) onMissing();
    }
    looked = Date.now();
    looking = null;
  };
  const look = (): void => {
    clearTimeout(soon);
    if (isOver) return;
    const wait = Math.max(LOOK_MS, looked + LOOK_EVERY_MS - Date.now());
    soon = setTimeout(() => {
      if (looking === null) looking = readView();
      else void looking.then(look);
    }, wait);
  };
  const catchUp = async (): Promise<void> => {
    for (let more = true; more && !isOver; ) {
      const page = await source.entries(runId, { after: model.last.peek(), limit: PAGE });
      model.takeEntries(page.entries);
      more = page.entries.length > 0 && model.last.peek() < page.last;
    }
  };
  const drawLive = (): void => {
    clearTimeout(drawing);
    drawing = undefined;
    const isWhole = batch(() =>
      gathered
        .splice(0)
        .map(news => (news.type === 'delta' ? model.takeDelta(news.data) : model.takeEntries([news.data])))
        .every(taken => taken !== false),
    );
    if (!isWhole) void catchUp().catch(() => {});
  };
  const lose = (): void => {
    if (model.connection.peek().type !== 'away') model.connection.value = { type: 'away', since: Date.now() };
  };
  const hear = (news: RunNews): void => {
    if (news.type === 'journal' || news.type === 'delta') {
      gathered.push(news);
      drawing ??= setTimeout(drawLive, GATHER_MS);
      return news.type === 'journal' ? look() : undefined;
    }
    drawLive();
    switch (news.type) {
      case 'open':
        if (model.connection.peek().type !== 'ended') model.connection.value = { type: 'live' };
        return look();
      case 'away':
        if (model.connection.peek().type !== 'ended') lose();
        return;
      case 'text':
        return model.takeTextSoFar(news.data);
      case 'end':
        model.connection.value = { type: 'ended' };
        unfollow();
        return look();
      case 'gone':
        return onMissing();
    }
  };
  const begin = async (): Promise<void> => {
    try {
      const { entries, state } = await source.entries(runId, 'tail');
      const before = (entries[0]?.seq ?? 1) - 1;
      if (isOver) return;
      const base = state === undefined ? Folded.start : Folded.from(before, restore(state));
      const viewed = readView();
      await model.beginAt(base, entries, idle);
      if (isOver) return;
      unfollow = source.follow(runId, () => model.last.peek(), hear);
      if (before > 0) await loadOlder(source, model, before);
      await viewed;
    } catch (error) {
      if (isOver || (error instanceof RequestError && error.status === 401)) return;
      if (error instanceof RequestError && error.status === 404) return onMissing();
      lose();
      setTimeout(() => void begin(), RECONNECT_MS);
    }
  };

  void begin();
  const poll = setInterval(() => {
    if (!document.hidden && !model.ended.peek() && model.connection.peek().type === 'live') look();
  }, POLL_MS);
  return {
    look,
    end() {
      isOver = true;
      clearTimeout(soon);
      clearTimeout(drawing);
      clearInterval(poll);
      unfollow();
    },
  };
}

async function loadOlder(source: PageSource, model: RunModel, before: number): Promise<void> {
  for (let after = 0; after < before; ) {
    await idle();
    const { entries } = await source.entries(model.runId, { after, limit: Math.min(PAGE, before - after) });
    const reached = entries.at(-1)?.seq;
    if (reached === undefined) return;
    model.addOlder(entries);
    after = reached;
  }
  await model.retell(idle);
}

const idle = (): Promise<void> => new Promise(resolve => setTimeout(resolve, 0));
