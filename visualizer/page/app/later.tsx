import { signal } from '@preact/signals';
import { type ComponentType, h } from 'preact';
import { describeThrown } from '../data/request.ts';

export function later<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  const loaded = signal<{ view: ComponentType<Props> } | { problem: string } | null>(null);
  let isLoading = false;
  const begin = async (): Promise<void> => {
    isLoading = true;
    try {
      loaded.value = { view: await load() };
    } catch (error) {
      loaded.value = { problem: describeThrown(error) };
    }
  };
  return props => {
    if (!isLoading) void begin();
    const now = loaded.value;
    if (now === null) return <div class="loading" aria-busy="true" />;
    if ('view' in now) return h(now.view, props);
    return (
      <div class="missing" role="alert">
        <h1>This view could not be loaded</h1>
        <p>{now.problem}</p>
        <p>The server may run another version by now. Reload the page.</p>
      </div>
    );
  };
}
