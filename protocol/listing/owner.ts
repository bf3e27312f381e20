/** The driver that holds a lease. */
export type Owner = {
  /** Unique for each driver, even within one process. */
  id: string;
  /** The name of the machine or container, for display; not unique. */
  host: string;
  pid: number;
  /** When the process started, in a platform-specific unit; empty if unknown. */
  startedAt: string;
  /**
   * A digest of host, boot and PID namespace: the scope in which `pid` and `startedAt` identify the process. Empty or
   * absent if unknown; such an owner is never declared dead by its `pid`.
   */
  space?: string;
  /** Unique for each loaded copy of the engine; each worker thread has its own. */
  instance?: string;
};
